// Blocks of GGML into packed tiles, and single rows of a packed matrix back into floats.
// What it does not know: files, threads, products.

#pragma once

#include "quant_layout.h"

namespace radixrt {

// Whether there is such a format.
bool known_format(int32_t format);

// Columns that a row of blocks is a multiple of: 1, 32 or 256.
int64_t block_columns(Format format);

// Bytes of one row of blocks. `cols` is a multiple of block_columns.
int64_t block_row_bytes(Format format, int64_t cols);

// Bytes of one packed tile for so many columns.
int64_t packed_tile_bytes(Format format, int64_t cols);

// Where a packed matrix lies, for a whole number of tiles at `data`, which is aligned to 64 bytes.
PackedView packed_view(Format format, int64_t rows, int64_t cols, const uint8_t *data);

// Writes the tiles first to last - 1 of the matrix whose rows of blocks follow each other at `blocks`.
void pack_tiles(const PackedView &matrix, const uint8_t *blocks, uint8_t *data, int64_t first, int64_t last);

// Writes the cols values of one row, with the operations in GGML's order.
void unpack_row(const PackedView &matrix, int64_t row, float *out);

}  // namespace radixrt
