// See quant_pack.h and, for the layout, quant_layout.h.

#include "quant_pack.h"

#include "quant_numbers.h"

namespace radixrt {

namespace {

// One group of one row: its codes and the bytes of its scales. `super` is set with the first group of a
// super-group.
struct Group {
    uint8_t codes[kGroup];
    uint8_t scales[2];  // of one or two bytes each, see Layout
    uint8_t wide[4];
    uint8_t super[4];
};

// How a row's scales lie within those of a tile: `count` numbers of `bytes` bytes, each 16 times in a row.
struct Layout {
    int count, bytes;
};

constexpr Layout scale_layout(Scheme scheme) {
    switch (scheme) {
        case Scheme::none: return {0, 0};
        case Scheme::scale: return {1, 2};
        case Scheme::scale_min: return {2, 2};
        case Scheme::super_min: return {2, 1};
        case Scheme::super_16: return {2, 1};
    }
    return {0, 0};
}

constexpr Layout super_layout(Scheme scheme) {
    return scheme == Scheme::super_min ? Layout{2, 2} : scheme == Scheme::super_16 ? Layout{1, 2} : Layout{0, 0};
}

void put(const Layout &layout, const uint8_t *numbers, int row, uint8_t *to) {
    for (int i = 0; i < layout.count; ++i) {
        memcpy(to + (i * kTileRows + row) * layout.bytes, numbers + i * layout.bytes, layout.bytes);
    }
}

// Sixteen bytes whose low halves are the first and whose high halves are the last sixteen codes.
void split_halves(const uint8_t *bytes, uint8_t *codes) {
    for (int i = 0; i < 16; ++i) {
        codes[i] = bytes[i] & 15;
        codes[i + 16] = bytes[i] >> 4;
    }
}

void add_fifth_bits(const uint8_t *bytes, uint8_t *codes) {
    uint32_t bits;
    memcpy(&bits, bytes, sizeof bits);
    for (int i = 0; i < kGroup; ++i) codes[i] |= (bits >> i & 1) << 4;
}

// Scale and minimum `s` of the eight that twelve bytes hold: the first four in the low six bits of bytes 0-3 and
// 4-7, of the others the lower halves in bytes 8-11 and the upper two bits on top of the first four.
void six_bits(const uint8_t *packed, int s, uint8_t *scale_and_minimum) {
    if (s < 4) {
        scale_and_minimum[0] = packed[s] & 63;
        scale_and_minimum[1] = packed[s + 4] & 63;
    } else {
        scale_and_minimum[0] = (packed[s + 4] & 15) | (packed[s - 4] >> 6 << 4);
        scale_and_minimum[1] = packed[s + 4] >> 4 | (packed[s] >> 6 << 4);
    }
}

void read_k4(const uint8_t *block, const uint8_t *nibbles, int s, Group &out) {
    memcpy(out.super, block, 4);
    six_bits(block + 4, s, out.scales);
    for (int i = 0; i < kGroup; ++i) out.codes[i] = nibbles[s / 2 * kGroup + i] >> s % 2 * 4 & 15;
}

void read_q6_k(const uint8_t *block, int s, Group &out) {
    memcpy(out.super, block + 208, 2);
    memcpy(out.scales, block + 192 + 2 * s, 2);
    const int half = s / 4, quarter = s % 4;  // 128 codes to a half, 32 to a quarter of it
    const uint8_t *low = block + half * 64 + quarter % 2 * 32, *high = block + 128 + half * 32;
    for (int i = 0; i < kGroup; ++i) {
        out.codes[i] = (low[i] >> quarter / 2 * 4 & 15) | (high[i] >> quarter * 2 & 3) << 4;
    }
}

// Group g of the row of blocks at `blocks`.
void read_group(Format format, const uint8_t *blocks, int64_t g, Group &out) {
    const uint8_t *block = blocks + (traits_of(format).scheme == Scheme::super_min || format == Format::q6_k
                                         ? block_row_bytes(format, kSuper * kGroup) * (g / kSuper)
                                         : block_row_bytes(format, kGroup) * g);
    const int s = static_cast<int>(g % kSuper);
    switch (format) {
        case Format::q4_0:
            memcpy(out.wide, block, 2);
            return split_halves(block + 2, out.codes);
        case Format::q4_1:
            memcpy(out.wide, block, 4);
            return split_halves(block + 4, out.codes);
        case Format::q5_0:
            memcpy(out.wide, block, 2);
            split_halves(block + 6, out.codes);
            return add_fifth_bits(block + 2, out.codes);
        case Format::q5_1:
            memcpy(out.wide, block, 4);
            split_halves(block + 8, out.codes);
            return add_fifth_bits(block + 4, out.codes);
        case Format::q8_0:
            memcpy(out.wide, block, 2);
            for (int i = 0; i < kGroup; ++i) out.codes[i] = block[2 + i] ^ 0x80;
            return;
        case Format::q4_k: return read_k4(block, block + 16, s, out);
        case Format::q5_k:
            read_k4(block, block + 48, s, out);
            for (int i = 0; i < kGroup; ++i) out.codes[i] |= (block[16 + i] >> s & 1) << 4;
            return;
        case Format::q6_k: return read_q6_k(block, s, out);
        case Format::f32:
        case Format::f16:
        case Format::bf16: return;  // has no codes
    }
}

// Where the code of a column lies in a group of a tile: vector and byte, before the row is added.
struct Spot {
    int chunk, byte;
};

constexpr Spot spot_of(int column, int row) { return {column / 4, row * 4 + column % 4}; }

// Adds a code to a group that is all zeros before.
void put_code(int bits, uint8_t code, int column, int row, uint8_t *to) {
    const auto [chunk, byte] = spot_of(column, row);
    if (bits == 8) {
        to[64 * chunk + byte] = code;
        return;
    }
    to[64 * (chunk % 4) + byte] |= (code & 15) << chunk / 4 * 4;
    if (bits == 5) to[256 + byte] |= (code >> 4) << chunk;
    if (bits == 6) to[256 + 64 * (chunk / 4) + byte] |= (code >> 4) << chunk % 4 * 2;
}

uint8_t get_code(int bits, int column, int row, const uint8_t *from) {
    const auto [chunk, byte] = spot_of(column, row);
    if (bits == 8) return from[64 * chunk + byte];
    uint8_t code = from[64 * (chunk % 4) + byte] >> chunk / 4 * 4 & 15;
    if (bits == 5) code |= (from[256 + byte] >> chunk & 1) << 4;
    if (bits == 6) code |= (from[256 + 64 * (chunk / 4) + byte] >> chunk % 4 * 2 & 3) << 4;
    return code;
}

// The three parts of a tile.
struct Parts {
    int64_t codes, scales, supers;
};

Parts parts_of(Format format, int64_t groups) {
    return {0, groups * code_bytes(format), groups * (code_bytes(format) + scale_bytes(format))};
}

void pack_float_row(const PackedView &m, const uint8_t *row, int lane, uint8_t *tile) {
    const int bytes = traits_of(m.format).bits / 8;
    for (int64_t c = 0; c < m.cols; ++c) memcpy(tile + (c * kTileRows + lane) * bytes, row + c * bytes, bytes);
}

void pack_code_row(const PackedView &m, const uint8_t *row, int lane, uint8_t *tile) {
    const Traits traits = traits_of(m.format);
    const Parts parts = parts_of(m.format, m.groups);
    const Layout scales = scale_layout(traits.scheme), super = super_layout(traits.scheme);
    for (int64_t g = 0; g < m.groups; ++g) {
        Group group = {};
        read_group(m.format, row, g, group);
        uint8_t *const codes = tile + parts.codes + g * code_bytes(m.format);
        for (int i = 0; i < kGroup; ++i) put_code(traits.bits, group.codes[i], i, lane, codes);
        put(scales, scales.bytes == 2 ? group.wide : group.scales, lane,
            tile + parts.scales + g * scale_bytes(m.format));
        put(super, group.super, lane, tile + parts.supers + g / kSuper * super_bytes(m.format));
    }
}

float unpack_value(const Traits &traits, int code, const uint8_t *scales, const uint8_t *super, int lane,
                   int half) {
    const float value = static_cast<float>(traits.zero_shift < 0 ? code : code - (1 << traits.zero_shift));
    switch (traits.scheme) {
        case Scheme::none: break;
        case Scheme::scale: return half_at(scales + 2 * lane) * value;
        case Scheme::scale_min:
            return half_at(scales + 2 * lane) * value + half_at(scales + 2 * (kTileRows + lane));
        case Scheme::super_min: {
            const float scale = half_at(super + 2 * lane) * scales[lane];
            return scale * value - half_at(super + 2 * (kTileRows + lane)) * scales[kTileRows + lane];
        }
        case Scheme::super_16:
            return half_at(super + 2 * lane) * static_cast<int8_t>(scales[kTileRows * half + lane]) * value;
    }
    return 0.0f;
}

}  // namespace

bool known_format(int32_t format) { return traits_of(static_cast<Format>(format)).bits != 0; }

int64_t block_columns(Format format) {
    const Scheme scheme = traits_of(format).scheme;
    if (scheme == Scheme::none) return 1;
    return scheme == Scheme::super_min || scheme == Scheme::super_16 ? kSuper * kGroup : kGroup;
}

int64_t block_row_bytes(Format format, int64_t cols) {
    const int64_t blocks = cols / block_columns(format);
    switch (format) {
        case Format::f32: return blocks * 4;
        case Format::f16:
        case Format::bf16: return blocks * 2;
        case Format::q4_0: return blocks * 18;
        case Format::q4_1: return blocks * 20;
        case Format::q5_0: return blocks * 22;
        case Format::q5_1: return blocks * 24;
        case Format::q8_0: return blocks * 34;
        case Format::q4_k: return blocks * 144;
        case Format::q5_k: return blocks * 176;
        case Format::q6_k: return blocks * 210;
    }
    return 0;
}

int64_t packed_tile_bytes(Format format, int64_t cols) {
    const int64_t groups = (cols + kGroup - 1) / kGroup, supers = (groups + kSuper - 1) / kSuper;
    const int64_t bytes = groups * (code_bytes(format) + scale_bytes(format)) + supers * super_bytes(format);
    return (bytes + 63) / 64 * 64;
}

PackedView packed_view(Format format, int64_t rows, int64_t cols, const uint8_t *data) {
    const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
    const auto groups = static_cast<int32_t>((cols + kGroup - 1) / kGroup);
    return {format, groups, rows, cols, tiles, packed_tile_bytes(format, cols), data};
}

void pack_tiles(const PackedView &m, const uint8_t *blocks, uint8_t *data, int64_t first, int64_t last) {
    const int64_t row_bytes = block_row_bytes(m.format, m.cols);
    const bool codes = traits_of(m.format).scheme != Scheme::none;
    for (int64_t tile = first; tile < last; ++tile) {
        uint8_t *const to = data + tile * m.tile_bytes;
        memset(to, 0, static_cast<size_t>(m.tile_bytes));
        for (int lane = 0; lane < kTileRows && tile * kTileRows + lane < m.rows; ++lane) {
            const uint8_t *const row = blocks + (tile * kTileRows + lane) * row_bytes;
            codes ? pack_code_row(m, row, lane, to) : pack_float_row(m, row, lane, to);
        }
    }
}

void unpack_row(const PackedView &m, int64_t row, float *out) {
    const Traits traits = traits_of(m.format);
    const Parts parts = parts_of(m.format, m.groups);
    const uint8_t *const tile = m.data + row / kTileRows * m.tile_bytes;
    const int lane = static_cast<int>(row % kTileRows);
    if (traits.scheme == Scheme::none) {
        const int bytes = traits.bits / 8;
        for (int64_t c = 0; c < m.cols; ++c) {
            const uint8_t *const at = tile + (c * kTileRows + lane) * bytes;
            out[c] = m.format == Format::f32 ? float_at(at) : m.format == Format::f16 ? half_at(at) : bfloat_at(at);
        }
        return;
    }
    for (int64_t c = 0; c < m.cols; ++c) {
        const int64_t g = c / kGroup;
        const int column = static_cast<int>(c % kGroup);
        const int code = get_code(traits.bits, column, lane, tile + parts.codes + g * code_bytes(m.format));
        out[c] = unpack_value(traits, code, tile + parts.scales + g * scale_bytes(m.format),
                              tile + parts.supers + g / kSuper * super_bytes(m.format), lane, column / 16);
    }
}

}  // namespace radixrt
