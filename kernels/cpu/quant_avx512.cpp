// The products with AVX-512 and VNNI: a vector is a whole tile, vpdpbusd adds four columns of sixteen rows at once.
// See quant_micro.h for the order of operations. Built with flags of its own; empty elsewhere.

#include "quant_layout.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include <immintrin.h>

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the vectors that its own header leaves undefined on purpose for mistakes (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "quant_micro.h"
#include "quant_rows.h"

namespace radixrt {
namespace {

struct Avx512 {
    using Float = __m512;
    using Int = __m512i;
    static constexpr int kLanes = 16;
    static constexpr int kCodeTiles = 2, kFloatTiles = 2;
    static constexpr bool kSigned8 = false;

    RADIXRT_INLINE Int zero() { return _mm512_setzero_si512(); }
    RADIXRT_INLINE Float zero_float() { return _mm512_setzero_ps(); }
    RADIXRT_INLINE Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
    RADIXRT_INLINE Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
    RADIXRT_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
    RADIXRT_INLINE Float negate(Float a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
    RADIXRT_INLINE Float to_float(Int a) { return _mm512_cvtepi32_ps(a); }
    RADIXRT_INLINE Float load(const float *from) { return _mm512_loadu_ps(from); }
    RADIXRT_INLINE void store(float *to, Float a) { _mm512_storeu_ps(to, a); }

    RADIXRT_INLINE Int word(const uint8_t *from) {
        int32_t value;
        memcpy(&value, from, 4);
        return _mm512_set1_epi32(value);
    }
    RADIXRT_INLINE Float broadcast(const uint8_t *from) { return _mm512_castsi512_ps(word(from)); }
    template <int Shift> RADIXRT_INLINE Int shifted(const uint8_t *from) {
        return _mm512_slli_epi32(word(from), Shift);
    }
    template <int Shift> RADIXRT_INLINE Int shifted_difference(const uint8_t *whole, const uint8_t *part) {
        return _mm512_slli_epi32(_mm512_sub_epi32(word(whole), word(part)), Shift);
    }

    // In two parts: GCC 12 sends the result of the one wide instruction through memory, which halves the speed.
    RADIXRT_INLINE Float half(const uint8_t *from) {
        const auto *const halves = reinterpret_cast<const __m128i *>(from);
        const __m512 low = _mm512_castps256_ps512(_mm256_cvtph_ps(_mm_load_si128(halves)));
        return _mm512_insertf32x8(low, _mm256_cvtph_ps(_mm_load_si128(halves + 1)), 1);
    }
    RADIXRT_INLINE Float from_bytes(const uint8_t *from) {
        return to_float(_mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i *>(from))));
    }
    RADIXRT_INLINE Float from_signed_bytes(const uint8_t *from) {
        return to_float(_mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i *>(from))));
    }
    template <Format F> RADIXRT_INLINE Float weights(const uint8_t *from) {
        if constexpr (F == Format::f32) {
            return _mm512_load_ps(from);
        } else if constexpr (F == Format::f16) {
            return half(from);
        } else {
            const __m256i upper = _mm256_load_si256(reinterpret_cast<const __m256i *>(from));
            return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(upper), 16));
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

    RADIXRT_INLINE Int vector(const uint8_t *codes, int v) { return _mm512_load_si512(codes + 64 * v); }

    // Moves bits up (or down) within bytes and keeps those in `mask`, above the four bits in `low`.
    template <int Up> RADIXRT_INLINE Int with_upper(Int low, Int plane, Int mask) {
        const Int moved = Up >= 0 ? _mm512_slli_epi16(plane, Up) : _mm512_srli_epi16(plane, -Up);
        return _mm512_ternarylogic_epi32(low, moved, mask, 0xf8);  // low | (moved & mask)
    }

    // The codes of chunk C of a group.
    template <int Bits, int C> RADIXRT_INLINE Int chunk(const uint8_t *codes) {
        if constexpr (Bits == 8) return vector(codes, C);
        const Int both = vector(codes, C % 4), mask = _mm512_set1_epi8(15);
        const Int low = _mm512_and_si512(C < 4 ? both : _mm512_srli_epi16(both, 4), mask);
        if constexpr (Bits == 5) return with_upper<4 - C>(low, vector(codes, 4), _mm512_set1_epi8(0x10));
        if constexpr (Bits == 6) {
            return with_upper<4 - 2 * (C % 4)>(low, vector(codes, 4 + C / 4), _mm512_set1_epi8(0x30));
        }
        return low;
    }

    template <int Bits, int C, int T, int R>
    RADIXRT_INLINE void dot_chunk(const uint8_t *codes, int64_t pitch, const uint8_t *rows, Int (&acc)[T][R]) {
        Int weights[T];
        RADIXRT_UNROLL
        for (int t = 0; t < T; ++t) weights[t] = chunk<Bits, C>(codes + t * pitch);
        RADIXRT_UNROLL
        for (int r = 0; r < R; ++r) {
            const Int x = word(rows + kGroup * r + 4 * C);
            RADIXRT_UNROLL
            for (int t = 0; t < T; ++t) acc[t][r] = _mm512_dpbusd_epi32(acc[t][r], weights[t], x);
        }
    }

    template <int Bits, Part P, int T, int R>
    RADIXRT_INLINE void dot(const uint8_t *codes, int64_t pitch, const uint8_t *rows, Int (&acc)[T][R]) {
        if constexpr (P != Part::second) {
            dot_chunk<Bits, 0>(codes, pitch, rows, acc);
            dot_chunk<Bits, 1>(codes, pitch, rows, acc);
            dot_chunk<Bits, 2>(codes, pitch, rows, acc);
            dot_chunk<Bits, 3>(codes, pitch, rows, acc);
        }
        if constexpr (P != Part::first) {
            dot_chunk<Bits, 4>(codes, pitch, rows, acc);
            dot_chunk<Bits, 5>(codes, pitch, rows, acc);
            dot_chunk<Bits, 6>(codes, pitch, rows, acc);
            dot_chunk<Bits, 7>(codes, pitch, rows, acc);
        }
    }
};

constexpr QuantKernels kKernels{quantize_panels, multiply<Avx512>};

}  // namespace

const QuantKernels *quant_kernels_avx512() { return &kKernels; }

}  // namespace radixrt

#else

namespace radixrt {
const QuantKernels *quant_kernels_avx512() { return nullptr; }
}  // namespace radixrt

#endif
