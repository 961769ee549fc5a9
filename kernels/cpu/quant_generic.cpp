// The products in plain C++ with vectors of 16 bytes, which every compiler we build with lowers to what the machine
// has. See quant_micro.h for the order of operations; where there is no fused multiply-add it is a product,
// rounded, and a sum, so that results agree with themselves on one machine but not to the last bit with another.

#include "quant_micro.h"
#include "quant_rows.h"

namespace radixrt {
namespace {

struct Generic {
    typedef float Float __attribute__((vector_size(16)));
    typedef int32_t Int __attribute__((vector_size(16)));
    typedef int16_t Short __attribute__((vector_size(16)));
    static constexpr int kLanes = 4;
    static constexpr int kCodeTiles = 1, kFloatTiles = 2;
    static constexpr bool kSigned8 = false;

    RADIXRT_INLINE Int zero() { return Int{}; }
    RADIXRT_INLINE Float zero_float() { return Float{}; }
    RADIXRT_INLINE Float add(Float a, Float b) { return a + b; }
    RADIXRT_INLINE Float mul(Float a, Float b) { return a * b; }
    RADIXRT_INLINE Float fma(Float a, Float b, Float c) {
#if defined(__FP_FAST_FMAF)
        for (int i = 0; i < kLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
        return c;
#else
        return a * b + c;
#endif
    }
    RADIXRT_INLINE Float negate(Float a) { return -a; }
    RADIXRT_INLINE Float to_float(Int a) { return __builtin_convertvector(a, Float); }
    RADIXRT_INLINE Float load(const float *from) {
        Float out;
        memcpy(&out, from, sizeof out);
        return out;
    }
    RADIXRT_INLINE void store(float *to, Float a) { memcpy(to, &a, sizeof a); }

    RADIXRT_INLINE Int word(const uint8_t *from) {
        int32_t value;
        memcpy(&value, from, 4);
        return Int{} + value;
    }
    RADIXRT_INLINE Float broadcast(const uint8_t *from) { return reinterpret_cast<Float>(word(from)); }
    template <int Shift> RADIXRT_INLINE Int shifted(const uint8_t *from) { return word(from) * (1 << Shift); }
    template <int Shift> RADIXRT_INLINE Int shifted_difference(const uint8_t *whole, const uint8_t *part) {
        return (word(whole) - word(part)) * (1 << Shift);
    }

    // So many small integers, made wider.
    template <class Narrow> RADIXRT_INLINE Int integers(const uint8_t *from) {
        Narrow narrow;
        memcpy(&narrow, from, sizeof narrow);
        return __builtin_convertvector(narrow, Int);
    }
    typedef uint16_t Words __attribute__((vector_size(8)));
    typedef uint8_t Bytes __attribute__((vector_size(4)));
    typedef int8_t SignedBytes __attribute__((vector_size(4)));

    // As half_at in quant_numbers.h.
    RADIXRT_INLINE Float half(const uint8_t *from) {
        const Int number = integers<Words>(from);
        const Float scaled = reinterpret_cast<Float>((number & 0x7fff) << 13) * 5.192296858534828e33f;
        const Int special = ((number & 0x7c00) == 0x7c00) & 0x7f800000;
        return reinterpret_cast<Float>(reinterpret_cast<Int>(scaled) | special | moved<16>(number & 0x8000));
    }
    RADIXRT_INLINE Float from_bytes(const uint8_t *from) { return to_float(integers<Bytes>(from)); }
    RADIXRT_INLINE Float from_signed_bytes(const uint8_t *from) { return to_float(integers<SignedBytes>(from)); }
    template <Format F> RADIXRT_INLINE Float weights(const uint8_t *from) {
        if constexpr (F == Format::f32) return load(reinterpret_cast<const float *>(from));
        if constexpr (F == Format::f16) return half(from);
        return reinterpret_cast<Float>(moved<16>(integers<Words>(from)));
    }

    template <int T, int64_t Bytes> RADIXRT_INLINE void prefetch(const uint8_t *, int64_t) {}

    // Sixteen bytes: four columns of four rows, as pairs of columns 0 and 2 (or 1 and 3) in 16-bit lanes.
    RADIXRT_INLINE Int vector(const uint8_t *codes, int v) {
        Int out;
        memcpy(&out, codes + 64 * v, sizeof out);
        return out;
    }
    template <int Up> RADIXRT_INLINE Int moved(Int a) {
        typedef uint32_t Bits __attribute__((vector_size(16)));
        return reinterpret_cast<Int>(Up >= 0 ? reinterpret_cast<Bits>(a) << (Up >= 0 ? Up : 0)
                                             : reinterpret_cast<Bits>(a) >> (Up >= 0 ? 0 : -Up));
    }

    template <int Bits, int C> RADIXRT_INLINE Int chunk(const uint8_t *codes) {
        if constexpr (Bits == 8) return vector(codes, C);
        const Int both = vector(codes, C % 4);
        const Int low = (C < 4 ? both : moved<-4>(both)) & 0x0f0f0f0f;
        if constexpr (Bits == 5) return low | (moved<4 - C>(vector(codes, 4)) & 0x10101010);
        if constexpr (Bits == 6) return low | (moved<4 - 2 * (C % 4)>(vector(codes, 4 + C / 4)) & 0x30303030);
        return low;
    }

    // Both 16-bit lanes of each 32 bits, added.
    RADIXRT_INLINE Int widen(Short a) {
        const Int both = reinterpret_cast<Int>(a);
        return (moved<16>(both) >> 16) + (both >> 16);
    }

    // Chunks C to C + Count - 1. One product of 8-bit codes fits into 16 bits; of smaller ones, a few pairs do.
    template <int Bits, int C, int Count, int R>
    RADIXRT_INLINE void dot_run(const uint8_t *codes, const uint8_t *rows, Int (&acc)[1][R]) {
        static_assert(Bits == 8 || Count * 2 * 127 * ((1 << Bits) - 1) <= INT16_MAX, "the sums must fit");
        Short pairs[R] = {};
        add_chunk<Bits, C>(codes, rows, pairs, acc);
        if constexpr (Count > 1) add_chunk<Bits, C + 1>(codes, rows, pairs, acc);
        if constexpr (Count > 2) add_chunk<Bits, C + 2>(codes, rows, pairs, acc);
        if constexpr (Count > 3) add_chunk<Bits, C + 3>(codes, rows, pairs, acc);
        if constexpr (Bits == 8) return;
        RADIXRT_UNROLL
        for (int r = 0; r < R; ++r) acc[0][r] += widen(pairs[r]);
    }

    template <int Bits, int C, int R>
    RADIXRT_INLINE void add_chunk(const uint8_t *codes, const uint8_t *rows, Short (&pairs)[R], Int (&acc)[1][R]) {
        const Int weights = chunk<Bits, C>(codes);
        const Short even = reinterpret_cast<Short>(weights & 0x00ff00ff);
        const Short odd = reinterpret_cast<Short>(moved<-8>(weights) & 0x00ff00ff);
        RADIXRT_UNROLL
        for (int r = 0; r < R; ++r) {
            const Int x = word(rows + kGroup * r + 4 * C);
            // Columns 0 and 2 with their signs, then 1 and 3.
            const Short even_x = reinterpret_cast<Short>(moved<8>(x)) >> 8;
            const Short odd_x = reinterpret_cast<Short>(x) >> 8;
            if constexpr (Bits == 8) {
                acc[0][r] += widen(even * even_x) + widen(odd * odd_x);
            } else {
                pairs[r] += even * even_x + odd * odd_x;
            }
        }
    }

    template <int Bits, Part P, int T, int R>
    RADIXRT_INLINE void dot(const uint8_t *codes, int64_t, const uint8_t *rows, Int (&acc)[T][R]) {
        static_assert(T == 1, "one tile at a time");
        constexpr int kCount = Bits == 6 ? 2 : 4;
        if constexpr (P != Part::second) {
            dot_run<Bits, 0, kCount>(codes, rows, acc);
            if constexpr (kCount == 2) dot_run<Bits, 2, kCount>(codes, rows, acc);
        }
        if constexpr (P != Part::first) {
            dot_run<Bits, 4, kCount>(codes, rows, acc);
            if constexpr (kCount == 2) dot_run<Bits, 6, kCount>(codes, rows, acc);
        }
    }
};

constexpr QuantKernels kKernels{quantize_panels, multiply<Generic>};

}  // namespace

const QuantKernels *quant_kernels_generic() { return &kKernels; }

}  // namespace radixrt
