// How a matrix and the rows it is multiplied with lie in memory.
//
// A packed matrix [rows, cols] is cut into tiles of 16 rows, a tile into groups of 32 columns; both are filled up
// with zeros. A tile holds, one after the other, the codes of all groups, their scales, and the scales of
// super-groups of 8 groups, and is filled up to whole lines of 64 bytes. All instruction sets read the same layout.
//
//   codes of a group, in vectors of 64 bytes: byte j belongs to row j / 4 of the tile and, in chunk c of 4 columns,
//   to column 4 c + j % 4 of the group.
//     4 bits: 4 vectors; vector v has chunk v in its low and chunk v + 4 in its high halves
//     5 bits: the same, then a vector whose bit c is the fifth bit of chunk c
//     6 bits: the same, then 2 vectors whose bits 2 i, 2 i + 1 are the upper bits of chunk i and of chunk 4 + i
//     8 bits: 8 vectors, one a chunk; q8_0 is kept as code + 128
//     f32, f16, bf16: 32 vectors of 16 values, one a column
//   scales of a group: `scale` 16 half d; `scale_min` 16 half d, 16 half m; `super_min` 16 bytes s, 16 bytes t;
//     `super_16` 16 signed bytes s for the first half of the columns, 16 for the second
//   super-group: `super_min` 16 half d, 16 half e; `super_16` 16 half d
//   value: `scale` d (code - zero); `scale_min` d code + m; `super_min` d s code - e t; `super_16` d s (code - 32)
//
// Bits per weight: q4_0 4.5, q4_1 5, q5_0 5.5, q5_1 6, q8_0 8.5, q4_k 4.625, q5_k 5.625, q6_k 6.5625: those of
// GGML, but for the 6-bit scales of q4_k and q5_k, which take a byte (0.125 bits more).
//
// Rows are prepared in panels of 4. Per group, a panel of quantized rows holds 4 x 32 codes in -127..127, then four
// of each: scale, scale * sum of the codes, minus the sum of the codes, minus the sum of the first 16. A panel of
// float rows holds 4 x 32 values. Rows beyond the last are not written and not read.
//
// Plain structures and functions with internal linkage: sources for different instruction sets include this, and
// the linker must not put the code of one in place of another. Little-endian machines only.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernels read little-endian files in place"
#endif

#define RADIXRT_INLINE static inline __attribute__((always_inline))

namespace radixrt {
namespace {

constexpr int kTileRows = 16;
constexpr int kGroup = 32;
constexpr int kSuper = 8;  // groups in a super-group
constexpr int kPanel = 4;
constexpr int64_t kPanelGroupInt8 = kPanel * (kGroup + 16);
constexpr int64_t kPanelGroupFloat = kPanel * kGroup * 4;
// Where the four numbers per row lie behind the codes of a group.
constexpr int kRowScale = kPanel * kGroup;
constexpr int kRowScaledSum = kRowScale + 16;
constexpr int kRowMinusSum = kRowScale + 32;
constexpr int kRowMinusFirst = kRowScale + 48;

}  // namespace

// The numbers of GGML.
enum class Format : int32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q4_1 = 3,
    q5_0 = 6,
    q5_1 = 7,
    q8_0 = 8,
    q4_k = 12,
    q5_k = 13,
    q6_k = 14,
    bf16 = 30,
};

enum class Scheme { none, scale, scale_min, super_min, super_16 };

namespace {

struct Traits {
    int bits;  // of a code; 16 and 32 are float types
    Scheme scheme;
    int zero_shift;  // log2 of the zero point, or -1
};

constexpr Traits traits_of(Format format) {
    switch (format) {
        case Format::f32: return {32, Scheme::none, -1};
        case Format::f16:
        case Format::bf16: return {16, Scheme::none, -1};
        case Format::q4_0: return {4, Scheme::scale, 3};
        case Format::q4_1: return {4, Scheme::scale_min, -1};
        case Format::q5_0: return {5, Scheme::scale, 4};
        case Format::q5_1: return {5, Scheme::scale_min, -1};
        case Format::q8_0: return {8, Scheme::scale, 7};
        case Format::q4_k: return {4, Scheme::super_min, -1};
        case Format::q5_k: return {5, Scheme::super_min, -1};
        case Format::q6_k: return {6, Scheme::super_16, 5};
    }
    return {0, Scheme::none, -1};  // no format at all
}

// Of one group of one tile.
constexpr int64_t code_bytes(Format format) { return int64_t{kTileRows} * kGroup * traits_of(format).bits / 8; }

constexpr int64_t scale_bytes(Format format) {
    switch (traits_of(format).scheme) {
        case Scheme::none: return 0;
        case Scheme::scale: return 2 * kTileRows;
        case Scheme::scale_min: return 4 * kTileRows;
        case Scheme::super_min: return 2 * kTileRows;
        case Scheme::super_16: return 2 * kTileRows;
    }
    return 0;
}

constexpr int64_t super_bytes(Format format) {
    const Scheme scheme = traits_of(format).scheme;
    return scheme == Scheme::super_min ? 4 * kTileRows : scheme == Scheme::super_16 ? 2 * kTileRows : 0;
}

}  // namespace

// A packed matrix that lies somewhere else.
struct PackedView {
    Format format;
    int32_t groups;
    int64_t rows, cols;
    int64_t tiles, tile_bytes;
    const uint8_t *data;
};

// What one instruction set does. Rows and tiles are half-open ranges; sizes are the caller's to check.
struct QuantKernels {
    // Quantizes rows x[rows][stride] into panels first to last - 1 of `panels`.
    void (*quantize)(const float *x, int64_t stride, int64_t rows, int64_t cols, uint8_t *panels, int64_t first,
                     int64_t last);
    // out[row][16 tile + i], for all rows and the tiles first to last - 1, from prepared rows of the right kind.
    void (*multiply)(const PackedView &matrix, const uint8_t *panels, int64_t rows, float *out, int64_t stride,
                     int64_t first, int64_t last);
};

// Null where the compiler had no such instructions. The machine must have them: see best_instruction_set.
const QuantKernels *quant_kernels_generic();
const QuantKernels *quant_kernels_avx2();
const QuantKernels *quant_kernels_avx512();

}  // namespace radixrt
