// Products of packed matrices and rows of float32: the calls that a forward pass is made of.
//
// Rows are prepared once (quantized, or copied for float weights) and can then be multiplied with any number of
// matrices of the same kind; a product can be cut at any tile. Neither changes a bit of the result, nor does
// anything about the other rows. All memory is the caller's.
//
// What it does not know: what the matrices stand for. Sizes are checked by whoever calls.

#pragma once

#include "cpu_features.h"
#include "quant_pack.h"
#include "thread_pool.h"

namespace radixrt {

// The kernels for an instruction set; null if the library was built without it.
const QuantKernels *quant_kernels(InstructionSet set);

// How the rows for a matrix must be prepared.
enum class RowKind : int32_t { int8 = 0, float32 = 1 };
RowKind row_kind(Format format);

// Bytes for so many prepared rows. The place is aligned to 64 bytes.
int64_t prepared_bytes(RowKind kind, int64_t rows, int64_t cols);

constexpr int64_t panels_of(int64_t rows) { return (rows + kPanel - 1) / kPanel; }

// Prepares the panels first to last - 1 of x[rows][stride], of which cols count.
void prepare_rows(const QuantKernels &kernels, RowKind kind, const float *x, int64_t stride, int64_t rows,
                  int64_t cols, uint8_t *prepared, int64_t first, int64_t last);

// The same for all panels, by the threads of a pool where that pays. False if the pool refuses.
bool prepare_rows(const QuantKernels &kernels, ThreadPool &pool, RowKind kind, const float *x, int64_t stride,
                  int64_t rows, int64_t cols, uint8_t *prepared);

// How many tiles a task should have, so that all threads are busy to the end and the tiles of a task stay in the
// second cache while the rows pass by.
int64_t tiles_per_task(const PackedView &matrix, int threads);

// out[row][stride] = prepared rows times the matrix, transposed, by the threads of a pool. False if it refuses.
bool multiply_rows(const QuantKernels &kernels, ThreadPool &pool, const PackedView &matrix, const uint8_t *prepared,
                   int64_t rows, float *out, int64_t stride);

}  // namespace radixrt
