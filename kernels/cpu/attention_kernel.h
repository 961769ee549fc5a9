// Attention of a few queries over one span of positions: the shape of the work, and who can do it.
//
// The score of a query and a key is one chain of fused products, dimensions ascending; a span's probabilities are
// relative to the greatest score that the query sees in it; the values are added in one chain, positions ascending,
// over exactly the positions that the query sees. So what one query gets out of a span is the same bits whoever is
// beside it. Spans begin at multiples of kSpan and are merged in ascending order, in one way: so a whole row is.
//
// What it does not know: rows of a batch, threads, who shares what with whom.

#pragma once

#include <cstdint>

namespace radixrt {

constexpr int kTile = 64;             // positions whose keys, or values, are brought together at a time
constexpr int kSpan = 256;            // positions of one softmax; a multiple of kTile
constexpr int kScoreStride = kSpan + 16;  // not a power of two: the rows of a block fall into different cache sets
constexpr int kMaxHeadDim = 256;

enum class KvKind : int32_t { kFloat32 = 0, kFloat16 = 1, kInt8 = 2 };

// Some kv heads of the pools [slots, kv_heads, head_dim], which have one layout. Scales [slots, kv_heads] for int8.
struct KvView {
    const void *keys, *values;                // of slot 0 and the first of the heads
    const float *key_scales, *value_scales;   // the same; null unless int8
    int64_t slot_stride;                      // in elements
    int64_t scale_stride;
    KvKind kind;
    int32_t head_dim;
};

// One query of one head in one span. Positions count from the beginning of the span.
struct SpanQuery {
    const float *query;
    // Out: padded_dim() sums of values, then the greatest score, then the sum of the probabilities.
    float *partial;
    int32_t first, last;   // the positions it sees, half open; 0, 0 for none
};

// One tile of keys and values as a range of the queries has it. The slots of the positions begin .. end stand at
// slots[0] ...; no query of the range sees a position of the tile outside of them.
struct SpanTile {
    const int32_t *slots;
    int32_t start;       // of the tile, from the beginning of the span: a multiple of kTile
    int32_t begin, end;  // the same origin
    int32_t first_query, last_query;
};

// Several heads are done together where that is little work: what a slot holds for them lies side by side, and
// memory is fast only when it is read in long pieces.
struct SpanWork {
    KvView kv;
    const SpanQuery *queries;  // [heads][query_count]
    const SpanTile *tiles;
    int32_t heads, query_count, tile_count;
    float scale;
    float softcap;   // 0: none
    float *scratch;  // scratch_floats() floats, on a multiple of 64 bytes
};

inline int padded_dim(int head_dim) { return (head_dim + 15) / 16 * 16; }
inline int partial_floats(int head_dim) { return padded_dim(head_dim) + 16; }
// For so many queries of all heads together.
inline int64_t scratch_floats(int head_dim, int64_t queries) {
    const int64_t dim = padded_dim(head_dim);
    return kTile * dim + queries * (dim + kScoreStride);
}

// What one instruction set offers.
struct AttentionKernel {
    const char *name;
    void (*run_span)(const SpanWork &work);
    // Takes the partial result of the next span into that of all before it.
    void (*merge)(float *total, const float *next, int32_t head_dim);
    // The weighted mean of the values: head_dim floats.
    void (*finish)(const float *total, int32_t head_dim, float *out);
};

// Null where this library was not built for the instruction set. Whether the machine has it is for the caller.
const AttentionKernel *attention_kernel_avx512();
const AttentionKernel *attention_kernel_avx2();
const AttentionKernel *attention_kernel_generic();

}  // namespace radixrt
