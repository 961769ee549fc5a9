// Vectors of 4 floats in the notation that gcc and clang share: SSE2, NEON, or plain code where there are none.
// See small_ops_simd.h for what each operation means.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace radixrt {
namespace {

struct Simd {
    typedef float Reg __attribute__((vector_size(16)));
    typedef int32_t Ints __attribute__((vector_size(16)));
    typedef uint32_t Words __attribute__((vector_size(16)));
    using Mask = Ints;
    static constexpr int kWidth = 4;
    static constexpr int kPanel = 2;

    static Ints numbers() { return Ints{0, 1, 2, 3}; }
    static Ints below(int n) { return numbers() < n; }
    static Reg zero() { return Reg{}; }
    static Reg all(float x) { return Reg{x, x, x, x}; }
    static Reg load(const float *p) {
        Reg x;
        std::memcpy(&x, p, sizeof x);
        return x;
    }
    static Reg load_part(const float *p, int n) {
        Reg x{};
        std::memcpy(&x, p, sizeof(float) * static_cast<size_t>(n));
        return x;
    }
    static void store(float *p, Reg x) { std::memcpy(p, &x, sizeof x); }
    static void store_part(float *p, Reg x, int n) { std::memcpy(p, &x, sizeof(float) * static_cast<size_t>(n)); }

    // A half's exponent and fraction, moved to their places in a float, are a float 2^112 too small; denormals too.
    static Reg load_half(const uint16_t *p) {
        const Words h{p[0], p[1], p[2], p[3]};
        const Words magnitude = h & 0x7fffu;
        const Words finite = (Words)((Reg)(magnitude << 13) * 0x1p112f);
        const Words special = (magnitude << 13) | 0x7f800000u | ((Words)(magnitude > 0x7c00u) & 0x400000u);
        const Words is_special = (Words)(magnitude >= 0x7c00u);
        return (Reg)(((h & 0x8000u) << 16) | (special & is_special) | (finite & ~is_special));
    }
    // Rounds to nearest even. Adding a number whose last place is that of the half's makes the float unit round.
    static void store_half(uint16_t *p, Reg x) {
        const Words bits = (Words)x, magnitude = bits & 0x7fffffffu;
        const Words odd = (magnitude >> 13) & 1u;
        const Words normal = (magnitude + odd + 0xfffu - 0x38000000u) >> 13;
        const Words small = (Words)((Reg)magnitude + 0.5f) - 0x3f000000u;
        const Words is_small = (Words)(magnitude < 0x38800000u);
        const Words is_big = (Words)(magnitude >= 0x477ff000u), is_nan = (Words)(magnitude > 0x7f800000u);
        Words h = (small & is_small) | (normal & ~is_small);
        h = (0x7c00u & is_big) | (h & ~is_big);
        h |= is_nan & (0x200u | ((magnitude >> 13) & 0x3ffu));
        h |= (bits >> 16) & 0x8000u;
        for (int i = 0; i < 4; ++i) p[i] = static_cast<uint16_t>(h[i]);
    }
    static Reg load_int8(const int8_t *p) {
        return Reg{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
                   static_cast<float>(p[3])};
    }
    static Reg add(Reg a, Reg b) { return a + b; }
    static Reg sub(Reg a, Reg b) { return a - b; }
    static Reg mul(Reg a, Reg b) { return a * b; }
    static Reg div(Reg a, Reg b) { return a / b; }
    static Reg fma(Reg a, Reg b, Reg c) {
#if defined(FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
        Reg x;
        for (int i = 0; i < 4; ++i) x[i] = __builtin_fmaf(a[i], b[i], c[i]);
        return x;
#else
        return a * b + c;
#endif
    }
    static Reg max(Reg a, Reg b) { return choose(a > b, a, b); }
    static Reg min(Reg a, Reg b) { return choose(a < b, a, b); }
    static Reg absolute(Reg x) { return (Reg)((Ints)x & 0x7fffffff); }
    static Reg sign_of(Reg x, Reg magnitude) {
        return (Reg)((Words)magnitude | ((Words)x & 0x80000000u));
    }
    // For |x| < 2^22 only.
    static Reg round(Reg x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
    static Reg power(Ints n) { return (Reg)(((Words)n + 127u) << 23); }
    static Reg times_power(Reg x, Reg n) {
        // The whole number stands in the last bits of this sum, whatever x is: no conversion that NaN could break.
        const Ints whole = (Ints)((Words)(n + 0x1.8p23f) - 0x4b400000u);
        const Ints half = whole >> 1;
        return x * power(half) * power((Ints)((Words)whole - (Words)half));
    }
    static Reg choose(Mask m, Reg yes, Reg no) { return (Reg)((m & (Ints)yes) | (~m & (Ints)no)); }
    static Mask less(Reg a, Reg b) { return a < b; }
    static Mask lanes(int first, int last) { return below(last) & ~below(first); }
    static Mask mask_of_bits(uint32_t bits) {
        const Words bit{1, 2, 4, 8};
        return (bit & bits) == bit;
    }
    static uint32_t gather(Ints m) {
        const Ints bit = m & Ints{1, 2, 4, 8};
        return static_cast<uint32_t>(bit[0] | bit[1] | bit[2] | bit[3]);
    }
    static uint32_t bits_equal(Reg a, Reg b) { return gather(a == b); }
    static uint32_t bits_nan(Reg x) { return gather(x != x); }

    static void transpose(Reg *x) {
        const Reg a = x[0], b = x[1], c = x[2], d = x[3];
        for (int i = 0; i < 4; ++i) x[i] = Reg{a[i], b[i], c[i], d[i]};
    }
};

}  // namespace
}  // namespace radixrt
