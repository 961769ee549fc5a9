// The operations of small_ops_table.h in the vectors of small_ops_simd.h. Included by one file per instruction set.

#pragma once

#include "small_ops_simd.h"
#include "small_ops_table.h"

namespace radixrt {
namespace {

// out[i] = function(i, load) for whole vectors and then for what is left over; `load(p)` reads p[i ...].
template <class Function> inline void for_each(int64_t n, float *out, const Function &function) {
    int64_t i = 0;
    for (; i + kWidth <= n; i += kWidth) {
        Simd::store(out + i, function([i](const float *p) { return Simd::load(p + i); }));
    }
    if (i == n) return;
    const int left = static_cast<int>(n - i);
    Simd::store_part(out + i, function([i, left](const float *p) { return Simd::load_part(p + i, left); }), left);
}

inline float sum_of_squares(const float *x, int64_t n) {
    Reg sum[4] = {Simd::zero(), Simd::zero(), Simd::zero(), Simd::zero()};
    int64_t i = 0;
    for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
        for (int k = 0; k < 4; ++k) {
            const Reg y = Simd::load(x + i + k * kWidth);
            sum[k] = Simd::fma(y, y, sum[k]);
        }
    }
    for (; i < n; i += kWidth) {
        const Reg y = i + kWidth <= n ? Simd::load(x + i) : Simd::load_part(x + i, static_cast<int>(n - i));
        sum[0] = Simd::fma(y, y, sum[0]);
    }
    return sum_lanes(Simd::add(Simd::add(sum[0], sum[1]), Simd::add(sum[2], sum[3])));
}

void add_row(float *x, const float *y, int64_t n) {
    for_each(n, x, [&](const auto &load) { return Simd::add(load(x), load(y)); });
}

void rms_norm_row(const float *x, float *residual, const float *weight, float offset, float eps, int64_t n,
                  float *out) {
    if (residual != nullptr) {
        add_row(residual, x, n);
        x = residual;
    }
    const float mean = sum_of_squares(x, n) / static_cast<float>(n);
    const Reg scale = Simd::all(1.0f / __builtin_sqrtf(mean + eps)), more = Simd::all(offset);
    if (offset == 0) {
        for_each(n, out, [&](const auto &load) { return Simd::mul(Simd::mul(load(x), scale), load(weight)); });
    } else {
        for_each(n, out, [&](const auto &load) {
            return Simd::mul(Simd::mul(load(x), scale), Simd::add(load(weight), more));
        });
    }
}

void scale_row(float *x, float factor, int64_t n) {
    for_each(n, x, [&](const auto &load) { return Simd::mul(load(x), Simd::all(factor)); });
}

// a and b become a cos - b sin and b cos + a sin.
inline void turn(const float *a, const float *b, const float *cosine, const float *sine, int32_t pairs,
                 float *out_a, float *out_b) {
    for (int32_t d = 0; d < pairs; d += kWidth) {
        const int left = pairs - d;
        const auto load = [d, left](const float *p) {
            return left >= kWidth ? Simd::load(p + d) : Simd::load_part(p + d, left);
        };
        const Reg x = load(a), y = load(b), c = load(cosine), s = load(sine);
        const Reg first = Simd::fma(x, c, Simd::sub(Simd::zero(), Simd::mul(y, s)));
        const Reg second = Simd::fma(y, c, Simd::mul(x, s));
        if (left >= kWidth) {
            Simd::store(out_a + d, first);
            Simd::store(out_b + d, second);
        } else {
            Simd::store_part(out_a + d, first, left);
            Simd::store_part(out_b + d, second, left);
        }
    }
}

void rope_row(const float *x, const float *cosine, const float *sine, int32_t pairs, float *out) {
    turn(x, x + pairs, cosine, sine, pairs, out, out + pairs);
}

void rope_interleaved_row(const float *x, const float *cosine, const float *sine, int32_t pairs, float *out) {
    float a[kMaxHeadDim / 2], b[kMaxHeadDim / 2];
    for (int32_t d = 0; d < pairs; ++d) {
        a[d] = x[2 * d];
        b[d] = x[2 * d + 1];
    }
    turn(a, b, cosine, sine, pairs, a, b);
    for (int32_t d = 0; d < pairs; ++d) {
        out[2 * d] = a[d];
        out[2 * d + 1] = b[d];
    }
}

void store_int8(const float *x, int32_t n, int8_t *out, float *scale) {
    Reg greatest = Simd::zero();
    uint32_t not_numbers = 0;
    for (int32_t i = 0; i < n; i += kWidth) {
        const Reg y = n - i >= kWidth ? Simd::load(x + i) : Simd::load_part(x + i, n - i);
        greatest = Simd::max(Simd::absolute(y), greatest);
        not_numbers |= Simd::bits_nan(y);
    }
    const float most = max_lanes(greatest);
    *scale = not_numbers != 0 ? __builtin_nanf("") : most / 127.0f;
    // What cannot be told from zero, or is no number, has no integer; the scale says the rest.
    const bool usable = not_numbers == 0 && *scale > 0 && *scale < kInfinity;
    float whole[kMaxHeadDim];
    for_each(n, whole, [&](const auto &load) { return Simd::round(Simd::div(load(x), Simd::all(*scale))); });
    for (int32_t i = 0; i < n; ++i) {
        const float bounded = whole[i] > 127 ? 127 : whole[i] < -127 ? -127 : whole[i];
        out[i] = usable ? static_cast<int8_t>(bounded) : static_cast<int8_t>(*scale == 0 ? 0 : 1);
    }
}

void store_row(const float *x, int32_t n, KvKind kind, void *out, float *scale) {
    if (kind == KvKind::kFloat32) {
        for_each(n, static_cast<float *>(out), [&](const auto &load) { return load(x); });
    } else if (kind == KvKind::kFloat16) {
        uint16_t *halves = static_cast<uint16_t *>(out);
        int32_t i = 0;
        for (; i + kWidth <= n; i += kWidth) Simd::store_half(halves + i, Simd::load(x + i));
        uint16_t some[kWidth];
        Simd::store_half(some, Simd::load_part(x + i, n - i));
        for (int k = 0; i + k < n; ++k) halves[i + k] = some[k];
    } else {
        store_int8(x, n, static_cast<int8_t *>(out), scale);
    }
}

void silu_mul_row(const float *gate, const float *up, int64_t n, float *out) {
    for_each(n, out, [&](const auto &load) {
        const Reg x = load(gate);
        return Simd::mul(logistic_times(x, x), load(up));
    });
}

// x / 2 * (1 + tanh u) is x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
void gelu_tanh_mul_row(const float *gate, const float *up, int64_t n, float *out) {
    const Reg linear = Simd::all(1.5957691216057308f), cubic = Simd::all(1.5957691216057308f * 0.044715f);
    for_each(n, out, [&](const auto &load) {
        const Reg x = load(gate);
        const Reg slope = Simd::mul(x, Simd::fma(Simd::mul(x, x), cubic, linear));
        return Simd::mul(logistic_times(x, slope), load(up));
    });
}

void softcap_row(float *x, float cap, int64_t n) {
    const Reg bound = Simd::all(cap);
    for_each(n, x, [&](const auto &load) { return Simd::mul(tanh(Simd::div(load(x), bound)), bound); });
}

constexpr uint32_t kAllLanes = (1u << kWidth) - 1;

// The lanes at i that are in the row and allowed.
inline uint32_t allowed_lanes(const uint32_t *allowed, int64_t i, int64_t n) {
    const uint32_t inside = n - i >= kWidth ? kAllLanes : (1u << (n - i)) - 1;
    return allowed == nullptr ? inside : (allowed[i >> 5] >> (i & 31)) & inside;
}

inline Reg load_up_to(const float *x, int64_t i, int64_t n) {
    return n - i >= kWidth ? Simd::load(x + i) : Simd::load_part(x + i, static_cast<int>(n - i));
}

int64_t argmax_row(const float *x, const uint32_t *allowed, int64_t n) {
    const Reg least = Simd::all(-kInfinity);
    Reg top = least;
    uint32_t not_numbers = 0, any = 0;
    for (int64_t i = 0; i < n; i += kWidth) {
        const uint32_t lanes = allowed_lanes(allowed, i, n);
        const Reg y = Simd::choose(Simd::mask_of_bits(lanes), load_up_to(x, i, n), least);
        not_numbers |= Simd::bits_nan(y);
        any |= lanes;
        top = Simd::max(y, top);
    }
    if (not_numbers != 0) return kNotANumber;
    if (any == 0) return kNoneAllowed;
    const Reg best = Simd::all(max_lanes(top));
    for (int64_t i = 0; i < n; i += kWidth) {
        const uint32_t found = Simd::bits_equal(load_up_to(x, i, n), best) & allowed_lanes(allowed, i, n);
        if (found != 0) return i + __builtin_ctz(found);
    }
    return kNotANumber;  // not reached: the greatest is one of them
}

void mask_row(float *x, const uint32_t *allowed, int64_t n) {
    const Reg least = Simd::all(-kInfinity);
    for (int64_t i = 0; i < n; i += kWidth) {
        const uint32_t lanes = allowed_lanes(allowed, i, n);
        const Reg y = Simd::choose(Simd::mask_of_bits(lanes), load_up_to(x, i, n), least);
        n - i >= kWidth ? Simd::store(x + i, y) : Simd::store_part(x + i, y, static_cast<int>(n - i));
    }
}

inline float greatest_of(const float *x, int64_t n) {
    Reg top = Simd::all(-kInfinity);
    int64_t i = 0;
    for (; i + kWidth <= n; i += kWidth) top = Simd::max(Simd::load(x + i), top);
    float best = max_lanes(top);
    for (; i < n; ++i) best = x[i] > best ? x[i] : best;
    return best;
}

// The sum of e^(x - shift); the terms go to `out` where it is not null. Lanes are summed in float for a while and
// then in double: the error does not grow with the length of the row.
inline double sum_of_powers(const float *x, float shift, int64_t n, float *out) {
    constexpr int64_t kBlock = 64 * kWidth;
    double total = 0;
    for (int64_t start = 0; start < n; start += kBlock) {
        const int64_t stop = start + kBlock < n ? start + kBlock : n;
        Reg sum = Simd::zero();
        for (int64_t i = start; i < stop; i += kWidth) {
            const int left = n - i >= kWidth ? kWidth : static_cast<int>(n - i);
            Reg y = exp(Simd::sub(load_up_to(x, i, n), Simd::all(shift)));
            if (left < kWidth) y = Simd::choose(Simd::lanes(0, left), y, Simd::zero());
            if (out != nullptr) left == kWidth ? Simd::store(out + i, y) : Simd::store_part(out + i, y, left);
            sum = Simd::add(sum, y);
        }
        total += static_cast<double>(sum_lanes(sum));
    }
    return total;
}

void softmax_row(const float *x, int64_t n, float *out) {
    const Reg sum = Simd::all(static_cast<float>(sum_of_powers(x, greatest_of(x, n), n, out)));
    for_each(n, out, [&](const auto &load) { return Simd::div(load(out), sum); });
}

void log_softmax_row(const float *x, int64_t n, float *out) {
    const float best = greatest_of(x, n);
    const Reg shift = Simd::all(best);
    const Reg log_sum = Simd::all(static_cast<float>(__builtin_log(sum_of_powers(x, best, n, nullptr))));
    for_each(n, out, [&](const auto &load) { return Simd::sub(Simd::sub(load(x), shift), log_sum); });
}

void exp_row(const float *x, int64_t n, float *out) {
    for_each(n, out, [&](const auto &load) { return exp(load(x)); });
}

void tanh_row(const float *x, int64_t n, float *out) {
    for_each(n, out, [&](const auto &load) { return tanh(load(x)); });
}

constexpr SmallOps kRows{rms_norm_row, add_row,      scale_row,         rope_row,        rope_interleaved_row,
                         store_row,    silu_mul_row, gelu_tanh_mul_row, softcap_row,     argmax_row,
                         mask_row,     softmax_row,  log_softmax_row,   exp_row,         tanh_row};

}  // namespace
}  // namespace radixrt
