// Rows of float32 made into panels of 8-bit codes: per group of 32, scale = largest magnitude / 127 and codes =
// values / scale, rounded to the nearest (ties to even).
//
// A group that holds a NaN or an infinity has codes 0 and a scale that is not finite, whose product is a NaN that
// reaches every output of the row. A group whose values are all below 2^-100 in magnitude counts as zero: for the
// smallest of them 1 / scale would leave the range of float32, and what they add to an output is nothing.
//
// Plain loops that a compiler makes vectors of; each instruction set includes this. All make the same bits: maxima
// and integer sums do not depend on the order, the rest is by element.

#pragma once

#include "quant_layout.h"

namespace radixrt {
namespace {

RADIXRT_INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

RADIXRT_INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Writes row `row` of a group of a panel.
RADIXRT_INLINE void quantize_group(const float *x, uint8_t *panel_group, int row) {
    constexpr uint32_t kInfinity = 0x7f800000, kTiny = (127 - 100) << 23;
    // Adding 1.5 * 2^23 leaves the rounded integer in the low bits.
    constexpr float kRound = 12582912.0f;
    uint32_t largest = 0;
    for (int i = 0; i < kGroup; ++i) {
        const uint32_t magnitude = bits_of(x[i]) & 0x7fffffff;
        largest = magnitude > largest ? magnitude : largest;
    }
    const bool usable = largest >= kTiny && largest < kInfinity;
    const float scale = float_of(largest) / 127.0f, inverse = usable ? 127.0f / float_of(largest) : 0.0f;
    int32_t codes[kGroup], first = 0, second = 0;
    for (int i = 0; i < kGroup; ++i) {
        const int32_t code = static_cast<int32_t>(bits_of(x[i] * inverse + kRound) - bits_of(kRound));
        codes[i] = usable ? code : 0;
    }
    for (int i = 0; i < kGroup / 2; ++i) {
        first += codes[i];
        second += codes[i + kGroup / 2];
    }
    int8_t *out = reinterpret_cast<int8_t *>(panel_group) + kGroup * row;
    for (int i = 0; i < kGroup; ++i) out[i] = static_cast<int8_t>(codes[i]);
    const float scaled = scale * static_cast<float>(first + second);
    const int32_t minus_sum = -(first + second), minus_first = -first;
    memcpy(panel_group + kRowScale + 4 * row, &scale, 4);
    memcpy(panel_group + kRowScaledSum + 4 * row, &scaled, 4);
    memcpy(panel_group + kRowMinusSum + 4 * row, &minus_sum, 4);
    memcpy(panel_group + kRowMinusFirst + 4 * row, &minus_first, 4);
}

static void quantize_panels(const float *x, int64_t stride, int64_t rows, int64_t cols, uint8_t *panels,
                            int64_t first, int64_t last) {
    const int64_t groups = (cols + kGroup - 1) / kGroup, whole = cols / kGroup;
    for (int64_t panel = first; panel < last; ++panel) {
        uint8_t *const base = panels + panel * groups * kPanelGroupInt8;
        for (int row = 0; row < kPanel && panel * kPanel + row < rows; ++row) {
            const float *const source = x + (panel * kPanel + row) * stride;
            for (int64_t g = 0; g < whole; ++g) {
                quantize_group(source + g * kGroup, base + g * kPanelGroupInt8, row);
            }
            if (whole == groups) continue;
            float rest[kGroup] = {};
            for (int64_t i = whole * kGroup; i < cols; ++i) rest[i - whole * kGroup] = source[i];
            quantize_group(rest, base + whole * kPanelGroupInt8, row);
        }
    }
}

}  // namespace
}  // namespace radixrt
