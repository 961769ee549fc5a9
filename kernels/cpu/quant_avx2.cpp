// The products with AVX2: a vector is half a tile. vpmaddubsw sums two products of unsigned and signed bytes in 16
// bits and would saturate for 8-bit codes; those are taken as magnitudes, with their signs moved to the rows. See
// quant_micro.h for the order of operations. Built with flags of its own; empty elsewhere.

#include "quant_layout.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

#include "quant_micro.h"
#include "quant_rows.h"

namespace radixrt {
namespace {

struct Avx2 {
    using Float = __m256;
    using Int = __m256i;
    static constexpr int kLanes = 8;
    // Codes: four rows of one tile fill the sixteen registers. Floats: eight chains hide the latency.
    static constexpr int kCodeTiles = 1, kFloatTiles = 2;
    static constexpr bool kSigned8 = true;

    RADIXRT_INLINE Int zero() { return _mm256_setzero_si256(); }
    RADIXRT_INLINE Float zero_float() { return _mm256_setzero_ps(); }
    RADIXRT_INLINE Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
    RADIXRT_INLINE Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
    RADIXRT_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
    RADIXRT_INLINE Float negate(Float a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
    RADIXRT_INLINE Float to_float(Int a) { return _mm256_cvtepi32_ps(a); }
    RADIXRT_INLINE Float load(const float *from) { return _mm256_loadu_ps(from); }
    RADIXRT_INLINE void store(float *to, Float a) { _mm256_storeu_ps(to, a); }

    RADIXRT_INLINE Int word(const uint8_t *from) {
        int32_t value;
        memcpy(&value, from, 4);
        return _mm256_set1_epi32(value);
    }
    RADIXRT_INLINE Float broadcast(const uint8_t *from) { return _mm256_castsi256_ps(word(from)); }
    template <int Shift> RADIXRT_INLINE Int shifted(const uint8_t *from) {
        return _mm256_slli_epi32(word(from), Shift);
    }
    template <int Shift> RADIXRT_INLINE Int shifted_difference(const uint8_t *whole, const uint8_t *part) {
        return _mm256_slli_epi32(_mm256_sub_epi32(word(whole), word(part)), Shift);
    }

    RADIXRT_INLINE Float half(const uint8_t *from) {
        return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i *>(from)));
    }
    RADIXRT_INLINE Float from_bytes(const uint8_t *from) {
        return to_float(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from))));
    }
    RADIXRT_INLINE Float from_signed_bytes(const uint8_t *from) {
        return to_float(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from))));
    }
    template <Format F> RADIXRT_INLINE Float weights(const uint8_t *from) {
        if constexpr (F == Format::f32) {
            return _mm256_load_ps(reinterpret_cast<const float *>(from));
        } else if constexpr (F == Format::f16) {
            return half(from);
        } else {
            const __m128i upper = _mm_load_si128(reinterpret_cast<const __m128i *>(from));
            return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(upper), 16));
        }
    }

    template <int T, int64_t Bytes> RADIXRT_INLINE void prefetch(const uint8_t *from, int64_t pitch) {
        RADIXRT_UNROLL
        for (int t = 0; t < T; ++t) {
            RADIXRT_UNROLL
            for (int64_t at = 0; at < Bytes; at += 64) {
                _mm_prefetch(reinterpret_cast<const char *>(from + t * pitch + at), _MM_HINT_T1);
            }
        }
    }

    RADIXRT_INLINE Int vector(const uint8_t *codes, int v) {
        return _mm256_load_si256(reinterpret_cast<const __m256i *>(codes + 64 * v));
    }

    template <int Up> RADIXRT_INLINE Int with_upper(Int low, Int plane, Int mask) {
        const Int moved = Up >= 0 ? _mm256_slli_epi16(plane, Up) : _mm256_srli_epi16(plane, -Up);
        return _mm256_or_si256(low, _mm256_and_si256(moved, mask));
    }

    // The codes of chunk C of a group, of fewer than 8 bits.
    template <int Bits, int C> RADIXRT_INLINE Int chunk(const uint8_t *codes) {
        const Int both = vector(codes, C % 4), mask = _mm256_set1_epi8(15);
        const Int low = _mm256_and_si256(C < 4 ? both : _mm256_srli_epi16(both, 4), mask);
        if constexpr (Bits == 5) return with_upper<4 - C>(low, vector(codes, 4), _mm256_set1_epi8(0x10));
        if constexpr (Bits == 6) {
            return with_upper<4 - 2 * (C % 4)>(low, vector(codes, 4 + C / 4), _mm256_set1_epi8(0x30));
        }
        return low;
    }

    // Adds the pairs of 16-bit sums to the 32-bit ones.
    RADIXRT_INLINE Int widen(Int acc, Int pairs) {
        return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }

    // Chunks C to C + Count - 1, whose sums fit into 16 bits together.
    template <int Bits, int C, int Count, int R>
    RADIXRT_INLINE void dot_run(const uint8_t *codes, const uint8_t *rows, Int (&acc)[1][R]) {
        static_assert(Count * 2 * 127 * ((1 << Bits) - 1) <= INT16_MAX, "the sums must fit into 16 bits");
        Int pairs[R];
        add_pairs<Bits, C, true>(codes, rows, pairs);
        if constexpr (Count > 1) add_pairs<Bits, C + 1, false>(codes, rows, pairs);
        if constexpr (Count > 2) {
            add_pairs<Bits, C + 2, false>(codes, rows, pairs);
            add_pairs<Bits, C + 3, false>(codes, rows, pairs);
        }
        if constexpr (Count > 4) {
            add_pairs<Bits, C + 4, false>(codes, rows, pairs);
            add_pairs<Bits, C + 5, false>(codes, rows, pairs);
            add_pairs<Bits, C + 6, false>(codes, rows, pairs);
            add_pairs<Bits, C + 7, false>(codes, rows, pairs);
        }
        RADIXRT_UNROLL
        for (int r = 0; r < R; ++r) acc[0][r] = widen(acc[0][r], pairs[r]);
    }

    template <int Bits, int C, bool First, int R>
    RADIXRT_INLINE void add_pairs(const uint8_t *codes, const uint8_t *rows, Int (&pairs)[R]) {
        const Int weights = chunk<Bits, C>(codes);
        RADIXRT_UNROLL
        for (int r = 0; r < R; ++r) {
            const Int products = _mm256_maddubs_epi16(weights, word(rows + kGroup * r + 4 * C));
            pairs[r] = First ? products : _mm256_add_epi16(pairs[r], products);
        }
    }

    // 128 * 127 * 2 is the largest sum of two products of a magnitude and a code of a row; it fits.
    template <int R> RADIXRT_INLINE void dot_signed(const uint8_t *codes, const uint8_t *rows, Int (&acc)[1][R]) {
        RADIXRT_UNROLL
        for (int c = 0; c < kGroup / 4; ++c) {
            const Int weights = _mm256_xor_si256(vector(codes, c), _mm256_set1_epi8(-128));
            const Int magnitudes = _mm256_abs_epi8(weights);
            RADIXRT_UNROLL
            for (int r = 0; r < R; ++r) {
                const Int x = _mm256_sign_epi8(word(rows + kGroup * r + 4 * c), weights);
                acc[0][r] = widen(acc[0][r], _mm256_maddubs_epi16(magnitudes, x));
            }
        }
    }

    template <int Bits, Part P, int T, int R>
    RADIXRT_INLINE void dot(const uint8_t *codes, int64_t, const uint8_t *rows, Int (&acc)[T][R]) {
        static_assert(T == 1, "one tile at a time");
        if constexpr (Bits == 8) {
            dot_signed(codes, rows, acc);
        } else if constexpr (Bits == 4) {
            dot_run<Bits, 0, 8>(codes, rows, acc);
        } else if constexpr (Bits == 5) {
            dot_run<Bits, 0, 4>(codes, rows, acc);
            dot_run<Bits, 4, 4>(codes, rows, acc);
        } else if constexpr (P == Part::first) {
            dot_run<Bits, 0, 2>(codes, rows, acc);
            dot_run<Bits, 2, 2>(codes, rows, acc);
        } else {
            static_assert(P == Part::second, "6-bit codes have a scale for either half");
            dot_run<Bits, 4, 2>(codes, rows, acc);
            dot_run<Bits, 6, 2>(codes, rows, acc);
        }
    }
};

constexpr QuantKernels kKernels{quantize_panels, multiply<Avx2>};

}  // namespace

const QuantKernels *quant_kernels_avx2() { return &kKernels; }

}  // namespace radixrt

#else

namespace radixrt {
const QuantKernels *quant_kernels_avx2() { return nullptr; }
}  // namespace radixrt

#endif
