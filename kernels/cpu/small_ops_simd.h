// The vectors that a file for one instruction set is written in, and the functions of one variable built on them.
//
// Such a file defines RADIXRT_SIMD_AVX512, RADIXRT_SIMD_AVX2 or neither and includes this first. All of it is in an
// unnamed namespace, and no such file uses inline functions or templates of the standard library: were they shared
// between files, the linker could keep the copy with instructions that the machine does not have. They are compiled
// with -ffp-contract=off: whether a product and a sum are fused must not depend on what the optimiser sees beside.
//
// struct Simd has kWidth lanes. `load_part` and `store_part` touch n values only, lanes beyond are zero. `max(a,
// b)` and `min(a, b)` give b where either is NaN. `round` goes to the nearest whole number, halves to even;
// `times_power(x, n)` is x * 2^n for whole -200 < n < 200, rounded once. `choose(m, yes, no)` picks by lane;
// `lanes(first, last)` is the half-open range of lanes, 0 <= first <= last <= kWidth. `sign_of(x, m)` is m >= 0
// with the sign of x.
//
// What it does not know: arrays and their shapes.

#pragma once

#if defined(RADIXRT_SIMD_AVX512)
#include "small_ops_simd_avx512.h"
#elif defined(RADIXRT_SIMD_AVX2)
#include "small_ops_simd_avx2.h"
#else
#include "small_ops_simd_generic.h"
#endif

namespace radixrt {
namespace {

using Reg = Simd::Reg;
constexpr int kWidth = Simd::kWidth;
constexpr float kInfinity = __builtin_inff();

// The sum of all lanes, halves folded onto each other: one fixed tree.
inline float sum_lanes(Reg x) {
    float lane[kWidth];
    Simd::store(lane, x);
    for (int half = kWidth / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
    }
    return lane[0];
}

// The greatest lane; what it is when a lane is NaN is not said.
inline float max_lanes(Reg x) {
    float lane[kWidth];
    Simd::store(lane, x);
    float best = lane[0];
    for (int i = 1; i < kWidth; ++i) best = lane[i] > best ? lane[i] : best;
    return best;
}

// e^x, at most 1 unit in the last place off (2 without fused products); 0 below -104, infinity above 88.73, NaN for
// NaN. x = n log 2 + r; e^r = 1 + r + r^2 q(r) with the q of degree 4 that makes the relative error smallest
// (3e-9 before rounding). log 2 is split so that n times its first part is exact.
inline Reg exp(Reg x) {
    const Reg bounded = Simd::min(Simd::all(89.0f), Simd::max(Simd::all(-104.0f), x));
    const Reg n = Simd::round(Simd::mul(bounded, Simd::all(0x1.715476p0f)));
    Reg r = Simd::fma(n, Simd::all(-0x1.62ep-1f), bounded);
    r = Simd::fma(n, Simd::all(-0x1.0bfbe8p-15f), r);
    Reg q = Simd::fma(Simd::all(0x1.6a218cp-10f), r, Simd::all(0x1.123b9ap-7f));
    q = Simd::fma(q, r, Simd::all(0x1.5558fcp-5f));
    q = Simd::fma(q, r, Simd::all(0x1.555490p-3f));
    q = Simd::fma(q, r, Simd::all(0x1.fffffcp-2f));
    const Reg power = Simd::add(Simd::fma(Simd::mul(r, r), q, r), Simd::all(1.0f));
    return Simd::times_power(power, n);
}

inline float exp(float x) {
    float lane[kWidth];
    Simd::store(lane, exp(Simd::all(x)));
    return lane[0];
}

// The hyperbolic tangent, at most 4 units in the last place off. Near zero x + x^3 q(x^2), with q of degree 4
// chosen like that of exp; elsewhere by e^(-2|x|), which cannot overflow.
inline Reg tanh(Reg x) {
    const Reg size = Simd::absolute(x), square = Simd::mul(x, x);
    Reg q = Simd::fma(Simd::all(-0.00570498784885f), square, Simd::all(0.0206390870006f));
    q = Simd::fma(q, square, Simd::all(-0.0537397145976f));
    q = Simd::fma(q, square, Simd::all(0.13331442187f));
    q = Simd::fma(q, square, Simd::all(-0.333332819416f));
    const Reg near = Simd::fma(Simd::mul(x, square), q, x);
    const Reg z = exp(Simd::mul(size, Simd::all(-2.0f))), one = Simd::all(1.0f);
    const Reg far = Simd::sign_of(x, Simd::div(Simd::sub(one, z), Simd::add(one, z)));
    return Simd::choose(Simd::less(size, Simd::all(0.625f)), near, far);
}

// x / (1 + e^-slope): x times the logistic function.
inline Reg logistic_times(Reg x, Reg slope) {
    return Simd::div(x, Simd::add(Simd::all(1.0f), exp(Simd::sub(Simd::zero(), slope))));
}

}  // namespace
}  // namespace radixrt
