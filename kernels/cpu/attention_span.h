// The work of attention_kernel.h in the vectors of small_ops_simd.h. Included by one file per instruction set.
//
// Keys of a tile are transposed, so that a vector holds one dimension of as many positions as it has lanes; values
// are laid out as they are. Both products are then of one kind, rows times a panel, with a block of rows and
// vectors in registers. Queries are scaled when they are brought together.

#pragma once

#include "attention_kernel.h"
#include "small_ops_simd.h"

namespace radixrt {
namespace {

constexpr int kBlockRows = 6;
// Values are brought together for so many queries of a head; fewer read them where they are.
constexpr int kManyQueries = 2 * kBlockRows + 1;

// sums[m][0 .. N vectors) += a[m * a_stride + k] * lines.load(k, ...) for k in first .. last, ascending.
template <int M, int N, class Lines>
inline void product_block(const float *a, int64_t a_stride, const Lines &lines, float *const *sums, int column,
                          int first, int last) {
    Reg sum[M][N];
    for (int m = 0; m < M; ++m) {
        for (int n = 0; n < N; ++n) sum[m][n] = Simd::load(sums[m] + column + n * kWidth);
    }
    for (int k = first; k < last; ++k) {
        Reg line[N];
        for (int n = 0; n < N; ++n) line[n] = lines.load(k, column + n * kWidth);
        for (int m = 0; m < M; ++m) {
            const Reg factor = Simd::all(a[m * a_stride + k]);
            for (int n = 0; n < N; ++n) sum[m][n] = Simd::fma(factor, line[n], sum[m][n]);
        }
    }
    for (int m = 0; m < M; ++m) {
        for (int n = 0; n < N; ++n) Simd::store(sums[m] + column + n * kWidth, sum[m][n]);
    }
}

template <int M, class Lines>
inline void product_rows(const float *a, int64_t a_stride, const Lines &lines, float *const *sums, int columns,
                         int first, int last) {
    int column = 0;
    for (; column + Simd::kPanel * kWidth <= columns; column += Simd::kPanel * kWidth) {
        product_block<M, Simd::kPanel>(a, a_stride, lines, sums, column, first, last);
    }
    for (; column < columns; column += kWidth) product_block<M, 1>(a, a_stride, lines, sums, column, first, last);
}

// The same for 1 to kBlockRows rows; `columns` is a multiple of kWidth.
template <class Lines>
inline void product(int rows, const float *a, int64_t a_stride, const Lines &lines, float *const *sums, int columns,
                    int first, int last) {
    switch (rows) {
        case 1: return product_rows<1>(a, a_stride, lines, sums, columns, first, last);
        case 2: return product_rows<2>(a, a_stride, lines, sums, columns, first, last);
        case 3: return product_rows<3>(a, a_stride, lines, sums, columns, first, last);
        case 4: return product_rows<4>(a, a_stride, lines, sums, columns, first, last);
        case 5: return product_rows<5>(a, a_stride, lines, sums, columns, first, last);
        default: return product_rows<6>(a, a_stride, lines, sums, columns, first, last);
    }
}

// Lines of floats one after the other.
struct Panel {
    const float *data;
    int64_t stride;

    Reg load(int k, int column) const { return Simd::load(data + k * stride + column); }
};

// How an element of the pools is stored, and how kWidth of them become floats.
template <KvKind kKind> struct Stored;
template <> struct Stored<KvKind::kFloat32> {
    using Type = float;
    static Reg load(const float *p, Reg) { return Simd::load(p); }
};
template <> struct Stored<KvKind::kFloat16> {
    using Type = uint16_t;
    static Reg load(const uint16_t *p, Reg) { return Simd::load_half(p); }
};
template <> struct Stored<KvKind::kInt8> {
    using Type = int8_t;
    static Reg load(const int8_t *p, Reg scale) { return Simd::mul(Simd::load_int8(p), scale); }
};

// The first n values only, n < kWidth.
template <KvKind kKind> inline Reg load_part(const typename Stored<kKind>::Type *p, int n, Reg scale) {
    typename Stored<kKind>::Type some[kWidth] = {};
    for (int i = 0; i < n; ++i) some[i] = p[i];
    return Stored<kKind>::load(some, scale);
}

// The keys, or the values, of one kv head, and those of the next behind them.
template <KvKind kKind> struct Pool {
    using Type = typename Stored<kKind>::Type;

    const Type *data;
    const float *scales;
    int64_t slot_stride, scale_stride;
    int dim;

    Pool head(int h) const {
        const float *scales_of = kKind == KvKind::kInt8 ? scales + h : scales;
        return {data + int64_t{h} * dim, scales_of, slot_stride, scale_stride, dim};
    }
    const Type *line(int32_t slot) const { return data + slot * slot_stride; }
    float scale(int32_t slot) const { return kKind == KvKind::kInt8 ? scales[slot * scale_stride] : 1.0f; }

};

// Transposes kWidth keys into kWidth columns of the panel.
template <KvKind kKind>
inline void transpose_keys(const typename Stored<kKind>::Type *const *lines, const float *scales, int dim,
                           float *panel) {
    Reg x[kWidth];
    int d = 0;
    for (; d + kWidth <= dim; d += kWidth) {
        for (int i = 0; i < kWidth; ++i) x[i] = Stored<kKind>::load(lines[i] + d, Simd::all(scales[i]));
        Simd::transpose(x);
        for (int i = 0; i < kWidth; ++i) Simd::store(panel + (d + i) * kTile, x[i]);
    }
    if (d == dim) return;
    for (int i = 0; i < kWidth; ++i) x[i] = load_part<kKind>(lines[i] + d, dim - d, Simd::all(scales[i]));
    Simd::transpose(x);
    for (int i = 0; i < dim - d; ++i) Simd::store(panel + (d + i) * kTile, x[i]);
}

// Transposes the keys of one tile: panel[d][position]. Positions without a slot are zero.
template <KvKind kKind> void lay_out_keys(const Pool<kKind> &pool, const SpanTile &tile, float *panel) {
    static constexpr typename Stored<kKind>::Type kNothing[kMaxHeadDim] = {};
    for (int block = 0; block < kTile; block += kWidth) {
        const typename Stored<kKind>::Type *lines[kWidth];
        float scales[kWidth];
        for (int i = 0; i < kWidth; ++i) {
            const int position = tile.start + block + i;
            const bool present = position >= tile.begin && position < tile.end;
            const int32_t slot = present ? tile.slots[position - tile.begin] : 0;
            lines[i] = present ? pool.line(slot) : kNothing;
            scales[i] = present ? pool.scale(slot) : 1.0f;
        }
        transpose_keys<kKind>(lines, scales, pool.dim, panel + block);
    }
}

// Copies the values of one tile: panel[position][d], padded with zeros to a whole number of vectors.
template <KvKind kKind> void lay_out_values(const Pool<kKind> &pool, const SpanTile &tile, float *panel) {
    const int dim = pool.dim, stride = padded_dim(dim);
    for (int position = tile.begin; position < tile.end; ++position) {
        const int32_t slot = tile.slots[position - tile.begin];
        const auto *line = pool.line(slot);
        const Reg scale = Simd::all(pool.scale(slot));
        float *row = panel + (position - tile.start) * stride;
        int d = 0;
        for (; d + kWidth <= dim; d += kWidth) Simd::store(row + d, Stored<kKind>::load(line + d, scale));
        if (d < dim) {
            Simd::store(row + d, load_part<kKind>(line + d, dim - d, scale));
            d += kWidth;
        }
        for (; d < stride; d += kWidth) Simd::store(row + d, Simd::zero());
    }
}

// Reads what the slots of a span hold for all heads of the work, in order and with nothing else in between. That
// is what a processor fetches ahead by itself, many times faster than the short pieces that one head wants of each
// slot or than lines asked for one by one.
template <KvKind kKind> inline void touch(const Pool<kKind> &pool, const SpanWork &work) {
    const int bytes = work.heads * pool.dim * static_cast<int>(sizeof(typename Stored<kKind>::Type));
    for (int t = 0; t < work.tile_count; ++t) {
        const SpanTile &tile = work.tiles[t];
        for (int i = 0; i < tile.end - tile.begin; ++i) {
            const volatile char *line = reinterpret_cast<const volatile char *>(pool.line(tile.slots[i]));
            for (int byte = 0; byte < bytes; byte += 64) (void)line[byte];
        }
    }
}

// The values of one tile where they are.
template <KvKind kKind> struct PoolLines {
    const Pool<kKind> &pool;
    const SpanTile &tile;

    Reg load(int k, int column) const {
        const int32_t slot = tile.slots[k - (tile.begin - tile.start)];
        return Stored<kKind>::load(pool.line(slot) + column, Simd::all(pool.scale(slot)));
    }
};

// The queries of one head and what goes with them.
struct HeadRows {
    const SpanQuery *queries;
    float *scaled;  // [query][padded_dim]
    float *scores;  // [query][kScoreStride]
};

inline int higher(int a, int b) { return a > b ? a : b; }
inline int lower(int a, int b) { return a < b ? a : b; }

inline bool sees(const SpanQuery &query, const SpanTile &tile) {
    return query.first < tile.start + kTile && query.last > tile.start;
}

// Scores of the whole tile for all queries of its range that see any of it, a block of rows at a time.
inline void score_tile(const HeadRows &rows, const SpanTile &tile, const float *panel, int dim) {
    const int stride = padded_dim(dim);
    int row = tile.first_query;
    while (row < tile.last_query) {
        if (!sees(rows.queries[row], tile)) {
            ++row;
            continue;
        }
        float *sums[kBlockRows];
        const int count = lower(kBlockRows, tile.last_query - row);
        for (int m = 0; m < count; ++m) {
            sums[m] = rows.scores + (row + m) * kScoreStride + tile.start;
            for (int i = 0; i < kTile; i += kWidth) Simd::store(sums[m] + i, Simd::zero());
        }
        product(count, rows.scaled + row * stride, stride, Panel{panel, kTile}, sums, kTile, 0, dim);
        row += count;
    }
}

// Turns the scores of one query into probabilities relative to the greatest; notes that and their sum.
inline void weigh(const SpanQuery &query, float *scores, float softcap, float *greatest, float *sum) {
    const int begin = query.first / kWidth * kWidth;
    const auto edge = [&query](int i) {
        return Simd::lanes(higher(0, query.first - i), lower(kWidth, query.last - i));
    };
    Reg top = Simd::all(-kInfinity);
    for (int i = begin; i < query.last; i += kWidth) {
        Reg x = Simd::load(scores + i);
        if (softcap != 0) {
            const Reg cap = Simd::all(softcap);
            x = Simd::mul(tanh(Simd::div(x, cap)), cap);
        }
        if (i < query.first || i + kWidth > query.last) x = Simd::choose(edge(i), x, Simd::all(-kInfinity));
        Simd::store(scores + i, x);
        top = Simd::max(x, top);
    }
    const float best = max_lanes(top);
    const Reg shift = Simd::all(best);
    Reg total = Simd::zero();
    for (int i = begin; i < query.last; i += kWidth) {
        const Reg x = exp(Simd::sub(Simd::load(scores + i), shift));
        Simd::store(scores + i, x);
        total = Simd::add(total, x);
    }
    *greatest = best;
    *sum = sum_lanes(total);
}

// Adds the values of one tile. Queries next to each other that see the same part of it make a block.
template <class Lines>
inline void mix_tile(const HeadRows &rows, const SpanTile &tile, const Lines &lines, int dim) {
    int row = tile.first_query;
    while (row < tile.last_query) {
        if (!sees(rows.queries[row], tile)) {
            ++row;
            continue;
        }
        const int first = higher(rows.queries[row].first - tile.start, 0);
        const int last = lower(rows.queries[row].last - tile.start, kTile);
        float *sums[kBlockRows];
        int count = 0;
        while (count < kBlockRows && row + count < tile.last_query) {
            const SpanQuery &query = rows.queries[row + count];
            if (!sees(query, tile) || higher(query.first - tile.start, 0) != first ||
                lower(query.last - tile.start, kTile) != last) {
                break;
            }
            sums[count++] = query.partial;
        }
        const float *shares = rows.scores + row * kScoreStride + tile.start;
        product(count, shares, kScoreStride, lines, sums, dim, first, last);
        row += count;
    }
}

inline void scale_queries(const SpanWork &work, float *scaled) {
    const int dim = work.kv.head_dim, stride = padded_dim(dim);
    const Reg scale = Simd::all(work.scale);
    for (int row = 0; row < work.heads * work.query_count; ++row) {
        const float *from = work.queries[row].query;
        float *to = scaled + static_cast<int64_t>(row) * stride, *partial = work.queries[row].partial;
        for (int d = 0; d < dim; d += kWidth) {
            const int left = dim - d;
            const Reg x = left >= kWidth ? Simd::load(from + d) : Simd::load_part(from + d, left);
            Simd::store(to + d, Simd::mul(x, scale));
        }
        for (int d = 0; d < stride; d += kWidth) Simd::store(partial + d, Simd::zero());
    }
}

template <KvKind kKind> void run_kind(const SpanWork &work) {
    using Type = typename Stored<kKind>::Type;
    const KvView &kv = work.kv;
    const int stride = padded_dim(kv.head_dim);
    float *panel = work.scratch, *scaled = panel + kTile * stride;
    float *scores = scaled + static_cast<int64_t>(work.heads) * work.query_count * stride;
    const auto rows_of = [&](int head) {
        const int64_t first = static_cast<int64_t>(head) * work.query_count;
        return HeadRows{work.queries + first, scaled + first * stride, scores + first * kScoreStride};
    };
    const Pool<kKind> keys{static_cast<const Type *>(kv.keys), kv.key_scales, kv.slot_stride, kv.scale_stride,
                           kv.head_dim};
    const Pool<kKind> values{static_cast<const Type *>(kv.values), kv.value_scales, kv.slot_stride, kv.scale_stride,
                             kv.head_dim};
    scale_queries(work, scaled);
    touch(keys, work);
    for (int t = 0; t < work.tile_count; ++t) {
        for (int head = 0; head < work.heads; ++head) {
            lay_out_keys(keys.head(head), work.tiles[t], panel);
            score_tile(rows_of(head), work.tiles[t], panel, kv.head_dim);
        }
    }
    touch(values, work);
    for (int row = 0; row < work.heads * work.query_count; ++row) {
        const SpanQuery &query = work.queries[row];
        if (query.first == query.last) continue;
        weigh(query, scores + static_cast<int64_t>(row) * kScoreStride, work.softcap, query.partial + stride,
              query.partial + stride + 1);
    }
    for (int t = 0; t < work.tile_count; ++t) {
        const SpanTile &tile = work.tiles[t];
        for (int head = 0; head < work.heads; ++head) {
            const Pool<kKind> pool = values.head(head);
            if (kv.head_dim == stride && tile.last_query - tile.first_query < kManyQueries) {
                mix_tile(rows_of(head), tile, PoolLines<kKind>{pool, tile}, stride);
            } else {
                lay_out_values(pool, tile, panel);
                mix_tile(rows_of(head), tile, Panel{panel, stride}, stride);
            }
        }
    }
}

void run_span(const SpanWork &work) {
    switch (work.kv.kind) {
        case KvKind::kFloat32: return run_kind<KvKind::kFloat32>(work);
        case KvKind::kFloat16: return run_kind<KvKind::kFloat16>(work);
        case KvKind::kInt8: return run_kind<KvKind::kInt8>(work);
    }
}

void merge_partial(float *total, const float *next, int32_t head_dim) {
    const int dim = padded_dim(head_dim);
    const float best = total[dim] > next[dim] ? total[dim] : next[dim];
    const float keep = exp(total[dim] - best), take = exp(next[dim] - best);
    const Reg keep_all = Simd::all(keep), take_all = Simd::all(take);
    for (int d = 0; d < dim; d += kWidth) {
        const Reg taken = Simd::mul(Simd::load(next + d), take_all);
        Simd::store(total + d, Simd::fma(Simd::load(total + d), keep_all, taken));
    }
    total[dim] = best;
    total[dim + 1] = total[dim + 1] * keep + next[dim + 1] * take;
}

void finish_total(const float *total, int32_t head_dim, float *out) {
    const Reg sum = Simd::all(total[padded_dim(head_dim) + 1]);
    for (int d = 0; d < head_dim; d += kWidth) {
        const Reg x = Simd::div(Simd::load(total + d), sum);
        const int left = head_dim - d;
        left >= kWidth ? Simd::store(out + d, x) : Simd::store_part(out + d, x, left);
    }
}

}  // namespace
}  // namespace radixrt
