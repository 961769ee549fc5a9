// The small operations over batches: which rows a thread does. The caller checks shapes and types.

#include <algorithm>

#include "small_ops_table.h"
#include "thread_pool.h"

namespace radixrt {

const SmallOps *small_ops_for(InstructionSet wanted) {
    static const InstructionSet best = best_instruction_set();
    if (wanted > best) return nullptr;
    switch (wanted) {
        case InstructionSet::avx512: return small_ops_avx512();
        case InstructionSet::avx2: return small_ops_avx2();
        case InstructionSet::generic: return small_ops_generic();
    }
    return nullptr;
}

}  // namespace radixrt

namespace {

using radixrt::SmallOps;
using radixrt::ThreadPool;

constexpr int64_t kWorthATask = 16384;  // floats; fewer take less time than handing them to another thread

const SmallOps *ops_for(int32_t set) { return radixrt::small_ops_for(static_cast<radixrt::InstructionSet>(set)); }

// function(row) for every row, of about so many floats. False if the pool refused.
template <class Function>
bool for_rows(ThreadPool *pool, int64_t rows, int64_t floats, const Function &function) {
    const int64_t step = std::max<int64_t>(1, kWorthATask / std::max<int64_t>(1, floats));
    if (pool == nullptr || rows <= step) {
        for (int64_t row = 0; row < rows; ++row) function(row);
        return true;
    }
    return pool->parallel_for((rows + step - 1) / step, [&](int64_t task, int) {
        for (int64_t row = task * step; row < std::min(rows, (task + 1) * step); ++row) function(row);
    });
}

}  // namespace

extern "C" {

// The version of this interface; the Python side refuses any other.
int32_t radixrt_small_ops_abi(void) { return 1; }

// All functions: 0 if the pool refused, or the instruction set cannot be used. `pool` may be null. Strides are in
// floats.
int32_t radixrt_small_ops_has(int32_t set) { return ops_for(set) != nullptr ? 1 : 0; }

int32_t radixrt_rms_norm(int32_t set, ThreadPool *pool, const float *x, int64_t stride, float *residual,
                         const float *weight, float offset, float eps, int64_t rows, int64_t n, float *out) {
    const SmallOps *ops = ops_for(set);
    return ops != nullptr && for_rows(pool, rows, n, [=](int64_t row) {
               float *sum = residual != nullptr ? residual + row * n : nullptr;
               ops->rms_norm(x + row * stride, sum, weight, offset, eps, n, out + row * n);
           });
}

struct radixrt_rope {
    float *query;                 // [tokens][heads][dim], turned in place; may be null
    const float *key, *value;     // [tokens][kv_heads][dim]; may be null
    const float *cosine, *sine;   // [tokens][pairs]
    const int64_t *slots;         // of each token
    void *key_pool, *value_pool;  // [slots][kv_heads][dim]
    float *key_scales, *value_scales;  // [slots][kv_heads]; int8 only
    int64_t query_stride, key_stride, value_stride, tokens;
    int32_t heads, kv_heads, dim, pairs;
    int32_t interleaved;
    radixrt::KvKind kind;
};

// Turns queries and keys by the angles of their tokens and stores keys and values where they belong.
int32_t radixrt_rope_and_store(int32_t set, ThreadPool *pool, const radixrt_rope *work) {
    const SmallOps *ops = ops_for(set);
    if (ops == nullptr) return 0;
    const radixrt_rope &w = *work;
    const auto turn = w.interleaved ? ops->rope_interleaved : ops->rope;
    const int64_t size = w.kind == radixrt::KvKind::kFloat32 ? 4 : w.kind == radixrt::KvKind::kFloat16 ? 2 : 1;
    const auto token = [&](int64_t t) {
        const float *cosine = w.cosine + t * w.pairs, *sine = w.sine + t * w.pairs;
        for (int64_t h = 0; w.query != nullptr && h < w.heads; ++h) {
            float *q = w.query + t * w.query_stride + h * w.dim;
            turn(q, cosine, sine, w.pairs, q);
        }
        for (int64_t h = 0; w.key != nullptr && h < w.kv_heads; ++h) {
            const float *key = w.key + t * w.key_stride + h * w.dim;
            const float *value = w.value + t * w.value_stride + h * w.dim;
            const int64_t place = w.slots[t] * w.kv_heads + h, byte = place * w.dim * size;
            float turned[radixrt::kMaxHeadDim];
            turn(key, cosine, sine, w.pairs, turned);
            std::copy(key + 2 * w.pairs, key + w.dim, turned + 2 * w.pairs);
            ops->store(turned, w.dim, w.kind, static_cast<char *>(w.key_pool) + byte,
                       w.key_scales != nullptr ? w.key_scales + place : nullptr);
            ops->store(value, w.dim, w.kind, static_cast<char *>(w.value_pool) + byte,
                       w.value_scales != nullptr ? w.value_scales + place : nullptr);
        }
    };
    return for_rows(pool, w.tokens, int64_t{w.heads + 2 * w.kv_heads} * w.dim, token);
}

// activation 0: silu, 1: gelu in its tanh form. gate_up [rows][2 n], the gate first.
int32_t radixrt_gate(int32_t set, ThreadPool *pool, int32_t activation, const float *gate_up, int64_t rows,
                     int64_t n, float *out) {
    const SmallOps *ops = ops_for(set);
    if (ops == nullptr) return 0;
    const auto gate = activation == 0 ? ops->silu_mul : ops->gelu_tanh_mul;
    return for_rows(pool, rows, 3 * n, [=](int64_t row) {
        const float *both = gate_up + row * 2 * n;
        gate(both, both + n, n, out + row * n);
    });
}

int32_t radixrt_softcap(int32_t set, ThreadPool *pool, float *x, float cap, int64_t rows, int64_t n) {
    const SmallOps *ops = ops_for(set);
    return ops != nullptr && for_rows(pool, rows, n, [=](int64_t row) { ops->softcap(x + row * n, cap, n); });
}

int32_t radixrt_scale(int32_t set, ThreadPool *pool, float *x, float factor, int64_t rows, int64_t n) {
    const SmallOps *ops = ops_for(set);
    return ops != nullptr && for_rows(pool, rows, n, [=](int64_t row) { ops->scale(x + row * n, factor, n); });
}

// words: of a row of `allowed`, which may be null.
int32_t radixrt_argmax(int32_t set, ThreadPool *pool, const float *x, const uint32_t *allowed, int64_t words,
                       int64_t rows, int64_t n, int64_t *out) {
    const SmallOps *ops = ops_for(set);
    return ops != nullptr && for_rows(pool, rows, n, [=](int64_t row) {
               out[row] = ops->argmax(x + row * n, allowed != nullptr ? allowed + row * words : nullptr, n);
           });
}

int32_t radixrt_mask(int32_t set, ThreadPool *pool, float *x, const uint32_t *allowed, int64_t words, int64_t rows,
                     int64_t n) {
    const SmallOps *ops = ops_for(set);
    return ops != nullptr &&
           for_rows(pool, rows, n, [=](int64_t row) { ops->mask(x + row * n, allowed + row * words, n); });
}

// kind 0: softmax, 1: its logarithm, 2: exp, 3: tanh
int32_t radixrt_rowwise(int32_t set, ThreadPool *pool, int32_t kind, const float *x, int64_t rows, int64_t n,
                        float *out) {
    const SmallOps *ops = ops_for(set);
    if (ops == nullptr) return 0;
    const auto run = kind == 0 ? ops->softmax : kind == 1 ? ops->log_softmax : kind == 2 ? ops->exp : ops->tanh;
    return for_rows(pool, rows, n, [=](int64_t row) { run(x + row * n, n, out + row * n); });
}

}  // extern "C"
