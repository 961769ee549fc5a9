// See quant_matmul.h; and the C ABI of all that.

#include "quant_matmul.h"

#include <algorithm>

namespace radixrt {

namespace {

// Below so many values one thread is quicker than two.
constexpr int64_t kFewValues = 16 * 1024;
// Tiles of a task: enough to be worth handing out, few enough to stay in the second cache.
constexpr int64_t kLeastTaskBytes = 32 * 1024, kMostTaskBytes = 384 * 1024;

void gather_rows(const float *x, int64_t stride, int64_t rows, int64_t cols, uint8_t *panels, int64_t first,
                 int64_t last) {
    const int64_t groups = (cols + kGroup - 1) / kGroup;
    for (int64_t panel = first; panel < last; ++panel) {
        float *const base = reinterpret_cast<float *>(panels + panel * groups * kPanelGroupFloat);
        for (int64_t row = 0; row < kPanel && panel * kPanel + row < rows; ++row) {
            const float *const source = x + (panel * kPanel + row) * stride;
            for (int64_t g = 0; g < groups; ++g) {
                float *const to = base + (g * kPanel + row) * kGroup;
                const int64_t count = std::min<int64_t>(kGroup, cols - g * kGroup);
                std::copy_n(source + g * kGroup, count, to);
                std::fill(to + count, to + kGroup, 0.0f);
            }
        }
    }
}

}  // namespace

const QuantKernels *quant_kernels(InstructionSet set) {
    switch (set) {
        case InstructionSet::generic: return quant_kernels_generic();
        case InstructionSet::avx2: return quant_kernels_avx2();
        case InstructionSet::avx512: return quant_kernels_avx512();
    }
    return nullptr;
}

RowKind row_kind(Format format) {
    return traits_of(format).scheme == Scheme::none ? RowKind::float32 : RowKind::int8;
}

int64_t prepared_bytes(RowKind kind, int64_t rows, int64_t cols) {
    const int64_t groups = (cols + kGroup - 1) / kGroup;
    return panels_of(rows) * groups * (kind == RowKind::int8 ? kPanelGroupInt8 : kPanelGroupFloat);
}

void prepare_rows(const QuantKernels &kernels, RowKind kind, const float *x, int64_t stride, int64_t rows,
                  int64_t cols, uint8_t *prepared, int64_t first, int64_t last) {
    const auto prepare = kind == RowKind::int8 ? kernels.quantize : gather_rows;
    prepare(x, stride, rows, cols, prepared, first, last);
}

bool prepare_rows(const QuantKernels &kernels, ThreadPool &pool, RowKind kind, const float *x, int64_t stride,
                  int64_t rows, int64_t cols, uint8_t *prepared) {
    const int64_t panels = panels_of(rows);
    const int64_t pieces = rows * cols < kFewValues ? 1 : std::min<int64_t>(panels, 4 * pool.threads());
    return pool.parallel_for(pieces, [&](int64_t piece, int) {
        const int64_t first = panels * piece / pieces, last = panels * (piece + 1) / pieces;
        prepare_rows(kernels, kind, x, stride, rows, cols, prepared, first, last);
    });
}

int64_t tiles_per_task(const PackedView &m, int threads) {
    if (m.tile_bytes == 0) return std::max<int64_t>(m.tiles, 1);  // no columns
    const int64_t fair = (m.tiles + 4 * threads - 1) / (4 * threads);
    const int64_t least = (kLeastTaskBytes + m.tile_bytes - 1) / m.tile_bytes, most = kMostTaskBytes / m.tile_bytes;
    const int64_t tiles = std::min(std::max(fair, least), std::max<int64_t>(most, 2));
    return (tiles + 1) / 2 * 2;  // in pairs, as the kernels take them
}

bool multiply_rows(const QuantKernels &kernels, ThreadPool &pool, const PackedView &m, const uint8_t *prepared,
                   int64_t rows, float *out, int64_t stride) {
    const int64_t step = tiles_per_task(m, pool.threads());
    return pool.parallel_for((m.tiles + step - 1) / step, [&](int64_t task, int) {
        const int64_t first = task * step;
        kernels.multiply(m, prepared, rows, out, stride, first, std::min(first + step, m.tiles));
    });
}

}  // namespace radixrt

extern "C" {

using radixrt::Format;
using radixrt::InstructionSet;
using radixrt::PackedView;
using radixrt::RowKind;

// The version of this interface and of the packed layout; the Python side refuses any other.
int32_t radixrt_matmul_abi(void) { return 1; }

// 1 if the library has kernels for the instruction set and the machine can run them.
int32_t radixrt_matmul_available(int32_t set) {
    return set >= 0 && set <= static_cast<int32_t>(radixrt::best_instruction_set()) &&
           radixrt::quant_kernels(static_cast<InstructionSet>(set)) != nullptr;
}

int32_t radixrt_matmul_row_kind(int32_t format) {
    return static_cast<int32_t>(radixrt::row_kind(static_cast<Format>(format)));
}

int64_t radixrt_matmul_prepared_bytes(int32_t kind, int64_t rows, int64_t cols) {
    return radixrt::prepared_bytes(static_cast<RowKind>(kind), rows, cols);
}

// Bytes of one row of GGML blocks, or -1 if the format is unknown or cols no multiple of its blocks.
int64_t radixrt_block_row_bytes(int32_t format, int64_t cols) {
    if (!radixrt::known_format(format)) return -1;
    const Format known = static_cast<Format>(format);
    return cols % radixrt::block_columns(known) ? -1 : radixrt::block_row_bytes(known, cols);
}

int64_t radixrt_packed_bytes(int32_t format, int64_t rows, int64_t cols) {
    const PackedView m = radixrt::packed_view(static_cast<Format>(format), rows, cols, nullptr);
    return m.tiles * m.tile_bytes;
}

// These return 0 if the pool refused.

int32_t radixrt_pack(radixrt::ThreadPool *pool, int32_t format, int64_t rows, int64_t cols, const uint8_t *blocks,
                     uint8_t *data) {
    const PackedView m = radixrt::packed_view(static_cast<Format>(format), rows, cols, data);
    const int64_t step = radixrt::tiles_per_task(m, pool->threads());
    return pool->parallel_for((m.tiles + step - 1) / step, [&](int64_t task, int) {
        radixrt::pack_tiles(m, blocks, data, task * step, std::min((task + 1) * step, m.tiles));
    });
}

int32_t radixrt_unpack_rows(radixrt::ThreadPool *pool, int32_t format, int64_t rows, int64_t cols,
                            const uint8_t *data, const int64_t *indices, int64_t count, float *out) {
    const PackedView m = radixrt::packed_view(static_cast<Format>(format), rows, cols, data);
    return pool->parallel_for(count, [&](int64_t i, int) { radixrt::unpack_row(m, indices[i], out + i * cols); });
}

int32_t radixrt_prepare_rows(radixrt::ThreadPool *pool, int32_t set, int32_t kind, const float *x, int64_t stride,
                             int64_t rows, int64_t cols, uint8_t *prepared) {
    const radixrt::QuantKernels &kernels = *radixrt::quant_kernels(static_cast<InstructionSet>(set));
    return radixrt::prepare_rows(kernels, *pool, static_cast<RowKind>(kind), x, stride, rows, cols, prepared);
}

int32_t radixrt_multiply(radixrt::ThreadPool *pool, int32_t set, int32_t format, int64_t rows, int64_t cols,
                         const uint8_t *data, const uint8_t *prepared, int64_t count, float *out, int64_t stride) {
    const radixrt::QuantKernels &kernels = *radixrt::quant_kernels(static_cast<InstructionSet>(set));
    const PackedView m = radixrt::packed_view(static_cast<Format>(format), rows, cols, data);
    return radixrt::multiply_rows(kernels, *pool, m, prepared, count, out, stride);
}

}  // extern "C"
