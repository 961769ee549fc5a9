// The small operations of a decoder step, one row at a time, and who can do them.
//
// Every element of a result is computed by the same instructions wherever it stands in its row, and every sum over
// a row has one fixed order: a row's result depends on nothing but the row, per instruction set.
//
// What it does not know: batches, threads, layers.

#pragma once

#include <cstdint>

#include "attention_kernel.h"
#include "cpu_features.h"

namespace radixrt {

constexpr int64_t kNoneAllowed = -1;  // of argmax: the mask has no bit
constexpr int64_t kNotANumber = -2;   // of argmax: an allowed value is NaN

struct SmallOps {
    // x / sqrt(mean(x^2) + eps) * (weight + offset). With `residual` it is residual + x that is normalised, and
    // that sum is left in it. `out` may be x; it must not be the residual.
    void (*rms_norm)(const float *x, float *residual, const float *weight, float offset, float eps, int64_t n,
                     float *out);
    // x += y
    void (*add)(float *x, const float *y, int64_t n);
    void (*scale)(float *x, float factor, int64_t n);
    // The pairs (x[d], x[d + pairs]), or (x[2d], x[2d + 1]), turned by the angles of which these are the cosines
    // and sines; 2 * pairs is at most kMaxHeadDim. `out` may be x.
    void (*rope)(const float *x, const float *cosine, const float *sine, int32_t pairs, float *out);
    void (*rope_interleaved)(const float *x, const float *cosine, const float *sine, int32_t pairs, float *out);
    // Stores up to kMaxHeadDim floats as an element of a pool. int8 gets the scale greatest / 127, which is NaN
    // when a value is; the others ignore `scale`.
    void (*store)(const float *x, int32_t n, KvKind kind, void *out, float *scale);
    // activation(gate) * up; `out` may be either.
    void (*silu_mul)(const float *gate, const float *up, int64_t n, float *out);
    void (*gelu_tanh_mul)(const float *gate, const float *up, int64_t n, float *out);
    // cap * tanh(x / cap)
    void (*softcap)(float *x, float cap, int64_t n);
    // Bit i % 32 of word i / 32 says whether value i is allowed; words may be null: all are. The index of the first
    // greatest allowed value, kNoneAllowed or kNotANumber.
    int64_t (*argmax)(const float *x, const uint32_t *allowed, int64_t n);
    // Values that are not allowed become -infinity.
    void (*mask)(float *x, const uint32_t *allowed, int64_t n);
    // `out` may be x. Without a finite greatest value, or with NaN, all is NaN.
    void (*softmax)(const float *x, int64_t n, float *out);
    void (*log_softmax)(const float *x, int64_t n, float *out);
    // The functions of one variable, for tests of their accuracy.
    void (*exp)(const float *x, int64_t n, float *out);
    void (*tanh)(const float *x, int64_t n, float *out);
};

// Null where this library was not built for the instruction set. Whether the machine has it is for the caller.
const SmallOps *small_ops_avx512();
const SmallOps *small_ops_avx2();
const SmallOps *small_ops_generic();

// Null where the library or this machine lacks it.
const SmallOps *small_ops_for(InstructionSet wanted);

}  // namespace radixrt
