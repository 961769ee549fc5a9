// The product of a few tiles and a few rows, and the loops around it, for any vector type V.
//
// Every output is made by one fixed sequence of operations: for each group of 32 columns in ascending order the
// exact integer dot product, made a float, times the scale of the row, then one fused multiply-add with the scale
// of the weights (and one with their minimum and the scaled sum of the row); for float weights, the sum of the
// group by fused multiply-adds in ascending order, added to the total. How many rows and tiles are worked on at
// once changes only what is in which register; where the columns are cut, totals wait in the output as the floats
// that they are.
//
// V gives: kLanes (rows of a tile that a vector holds), Float, Int, the operations named below, and dot<Bits,
// Part>, which adds the products of codes and rows to acc; Part is first, second or both halves of the columns.
//
// To be included by the source of one instruction set each; everything here has internal linkage.

#pragma once

#include "quant_layout.h"

#if defined(__clang__)
#define RADIXRT_UNROLL _Pragma("unroll")
#else
#define RADIXRT_UNROLL _Pragma("GCC unroll 16")
#endif

namespace radixrt {
namespace {

enum class Part { first, second, both };

// Rows whose prepared form (32 to 100 KiB for usual widths) stays in the second cache while the tiles pass by.
constexpr int64_t kRowBlock = 64;
static_assert(kRowBlock % kPanel == 0, "blocks are whole panels");

// Bytes of tiles that stay in the first cache while the panels of a block pass by.
constexpr int64_t kNearBytes = 20 * 1024;

// Where the work of one call is.
struct Place {
    const uint8_t *tile;
    int64_t tile_bytes;
    int64_t ahead;        // how far in front of the codes to prefetch; 0: not at all
    int32_t groups;       // of the matrix
    int32_t first, last;  // groups to work on; if first > 0 the totals of those before are in `out`
    int32_t lane;         // the first row of the tile that the vector holds
    const uint8_t *panel;
    float *out;
    int64_t stride;
};

// Asks for the lines of the outputs early: for wide outputs each row is on a page of its own and none is near.
template <class V, int T, int R> RADIXRT_INLINE void announce(const Place &at) {
    RADIXRT_UNROLL
    for (int r = 0; r < R; ++r) {
        RADIXRT_UNROLL
        for (int t = 0; t < T; ++t) __builtin_prefetch(at.out + r * at.stride + t * kTileRows + at.lane, 1);
    }
}

template <class V, int T, int R>
RADIXRT_INLINE void store(const Place &at, const typename V::Float (&total)[T][R]) {
    RADIXRT_UNROLL
    for (int t = 0; t < T; ++t) {
        RADIXRT_UNROLL
        for (int r = 0; r < R; ++r) V::store(at.out + r * at.stride + t * kTileRows + at.lane, total[t][r]);
    }
}

template <class V, int T, int R> RADIXRT_INLINE void load(const Place &at, typename V::Float (&total)[T][R]) {
    RADIXRT_UNROLL
    for (int t = 0; t < T; ++t) {
        RADIXRT_UNROLL
        for (int r = 0; r < R; ++r) {
            const float *const from = at.out + r * at.stride + t * kTileRows + at.lane;
            total[t][r] = at.first == 0 ? V::zero_float() : V::load(from);
        }
    }
}

// Scales of the weights in one group: value = scale * (code - zero) + minimum.
template <class V, Format F> struct Scales {
    using Float = typename V::Float;
    static constexpr Scheme kScheme = traits_of(F).scheme;

    // `scales` and `super` are those of the group and of its super-group.
    RADIXRT_INLINE Float scale(const uint8_t *scales, const uint8_t *super, int lane, int half) {
        if constexpr (kScheme == Scheme::super_min) {
            return V::mul(V::half(super + 2 * lane), V::from_bytes(scales + lane));
        } else if constexpr (kScheme == Scheme::super_16) {
            return V::mul(V::half(super + 2 * lane), V::from_signed_bytes(scales + kTileRows * half + lane));
        } else {
            return V::half(scales + 2 * lane);
        }
    }

    RADIXRT_INLINE Float minimum(const uint8_t *scales, const uint8_t *super, int lane) {
        if constexpr (kScheme == Scheme::super_min) {
            const Float part = V::from_bytes(scales + kTileRows + lane);
            return V::negate(V::mul(V::half(super + 2 * kTileRows + 2 * lane), part));
        } else {
            return V::half(scales + 2 * kTileRows + 2 * lane);
        }
    }
};

// What the integer dot products start from: minus zero point times the sum of the row's codes.
template <class V, Format F, Part P> RADIXRT_INLINE typename V::Int start(const uint8_t *row_group, int r) {
    constexpr int kShift = traits_of(F).zero_shift;
    if constexpr (kShift < 0 || (F == Format::q8_0 && V::kSigned8)) {
        return V::zero();
    } else if constexpr (P == Part::both) {
        return V::template shifted<kShift>(row_group + kRowMinusSum + 4 * r);
    } else if constexpr (P == Part::first) {
        return V::template shifted<kShift>(row_group + kRowMinusFirst + 4 * r);
    } else {
        return V::template shifted_difference<kShift>(row_group + kRowMinusSum + 4 * r,
                                                      row_group + kRowMinusFirst + 4 * r);
    }
}

// One group, or one half of it: adds scale * row scale * dot to the totals.
template <class V, Format F, Part P, int T, int R>
RADIXRT_INLINE void add_products(const Place &at, const uint8_t *codes, const uint8_t *scales, const uint8_t *super,
                                 const uint8_t *row_group, typename V::Float (&total)[T][R]) {
    typename V::Int acc[T][R];
    RADIXRT_UNROLL
    for (int t = 0; t < T; ++t) {
        RADIXRT_UNROLL
        for (int r = 0; r < R; ++r) acc[t][r] = start<V, F, P>(row_group, r);
    }
    V::template dot<traits_of(F).bits, P, T, R>(codes + 4 * at.lane, at.tile_bytes, row_group, acc);
    RADIXRT_UNROLL
    for (int t = 0; t < T; ++t) {
        const int64_t to = t * at.tile_bytes;
        const auto scale = Scales<V, F>::scale(scales + to, super + to, at.lane, P == Part::second);
        RADIXRT_UNROLL
        for (int r = 0; r < R; ++r) {
            const auto product = V::mul(V::to_float(acc[t][r]), V::broadcast(row_group + kRowScale + 4 * r));
            total[t][r] = V::fma(product, scale, total[t][r]);
        }
    }
}

template <class V, Format F, int T, int R> RADIXRT_INLINE void multiply_codes(const Place &at) {
    constexpr Scheme kScheme = traits_of(F).scheme;
    typename V::Float total[T][R];
    load<V, T, R>(at, total);
    const uint8_t *codes = at.tile + at.first * code_bytes(F);
    const uint8_t *scales = at.tile + at.groups * code_bytes(F) + at.first * scale_bytes(F);
    const uint8_t *super = at.tile + at.groups * (code_bytes(F) + scale_bytes(F));
    super += at.first / kSuper * super_bytes(F);
    const uint8_t *row_group = at.panel + at.first * kPanelGroupInt8;
    for (int32_t g = at.first; g < at.last; ++g) {
        if (at.ahead != 0) {
            V::template prefetch<T, code_bytes(F)>(codes + at.ahead, at.tile_bytes);
            V::template prefetch<T, scale_bytes(F)>(scales + at.ahead, at.tile_bytes);
        }
        if constexpr (kScheme == Scheme::super_16) {
            add_products<V, F, Part::first, T, R>(at, codes, scales, super, row_group, total);
            add_products<V, F, Part::second, T, R>(at, codes, scales, super, row_group, total);
        } else {
            add_products<V, F, Part::both, T, R>(at, codes, scales, super, row_group, total);
        }
        if constexpr (kScheme == Scheme::scale_min || kScheme == Scheme::super_min) {
            RADIXRT_UNROLL
            for (int t = 0; t < T; ++t) {
                const int64_t to = t * at.tile_bytes;
                const auto minimum = Scales<V, F>::minimum(scales + to, super + to, at.lane);
                RADIXRT_UNROLL
                for (int r = 0; r < R; ++r) {
                    const auto sum = V::broadcast(row_group + kRowScaledSum + 4 * r);
                    total[t][r] = V::fma(minimum, sum, total[t][r]);
                }
            }
        }
        codes += code_bytes(F);
        scales += scale_bytes(F);
        if (super_bytes(F) > 0 && g % kSuper == kSuper - 1) super += super_bytes(F);
        row_group += kPanelGroupInt8;
    }
    store<V, T, R>(at, total);
}

template <class V, Format F, int T, int R> RADIXRT_INLINE void multiply_floats(const Place &at) {
    constexpr int kBytes = traits_of(F).bits / 8;
    typename V::Float total[T][R], part[T][R];
    load<V, T, R>(at, total);
    const uint8_t *weights = at.tile + at.first * code_bytes(F) + at.lane * kBytes;
    const uint8_t *row_group = at.panel + at.first * kPanelGroupFloat;
    for (int32_t g = at.first; g < at.last; ++g) {
        if (at.ahead != 0) V::template prefetch<T, code_bytes(F)>(weights + at.ahead, at.tile_bytes);
        RADIXRT_UNROLL
        for (int t = 0; t < T; ++t) {
            RADIXRT_UNROLL
            for (int r = 0; r < R; ++r) part[t][r] = V::zero_float();
        }
        for (int c = 0; c < kGroup; ++c) {
            typename V::Float w[T];
            RADIXRT_UNROLL
            for (int t = 0; t < T; ++t) {
                w[t] = V::template weights<F>(weights + t * at.tile_bytes + c * kTileRows * kBytes);
            }
            RADIXRT_UNROLL
            for (int r = 0; r < R; ++r) {
                const auto x = V::broadcast(row_group + 4 * (kGroup * r + c));
                RADIXRT_UNROLL
                for (int t = 0; t < T; ++t) part[t][r] = V::fma(w[t], x, part[t][r]);
            }
        }
        RADIXRT_UNROLL
        for (int t = 0; t < T; ++t) {
            RADIXRT_UNROLL
            for (int r = 0; r < R; ++r) total[t][r] = V::add(total[t][r], part[t][r]);
        }
        weights += code_bytes(F);
        row_group += kPanelGroupFloat;
    }
    store<V, T, R>(at, total);
}

// T neighbouring tiles times R rows of one panel.
template <class V, Format F, int T, int R>
static __attribute__((noinline)) void multiply_block(const Place &at) {
    announce<V, T, R>(at);
    if constexpr (traits_of(F).scheme == Scheme::none) {
        multiply_floats<V, F, T, R>(at);
    } else {
        multiply_codes<V, F, T, R>(at);
    }
}

template <class V, Format F, int T> RADIXRT_INLINE void multiply_panel(const Place &at, int64_t rows) {
    switch (rows) {
        case 1: return multiply_block<V, F, T, 1>(at);
        case 2: return multiply_block<V, F, T, 2>(at);
        case 3: return multiply_block<V, F, T, 3>(at);
        default: return multiply_block<V, F, T, 4>(at);
    }
}

// Groups that are worked on before the next panel's turn: all, if there is one panel only.
template <Format F, int T> constexpr int32_t groups_at_once(int32_t groups, int64_t rows) {
    constexpr int64_t kBytes = T * (code_bytes(F) + scale_bytes(F));
    constexpr int32_t kFit = kNearBytes / kBytes, kNear = kFit < kSuper ? kFit : kFit / kSuper * kSuper;
    static_assert(kNear > 0 && (super_bytes(F) == 0 || kNear % kSuper == 0), "super-groups stay whole");
    return rows <= kPanel ? groups : kNear;
}

// T tiles from `tile` on times the rows of one block.
template <class V, Format F, int T>
RADIXRT_INLINE void multiply_tiles(const PackedView &m, Place at, int64_t tile, int64_t rows) {
    constexpr int64_t kPanelGroup = traits_of(F).scheme == Scheme::none ? kPanelGroupFloat : kPanelGroupInt8;
    // The rows of the last tile that are only there to fill it up go to a place of their own.
    float spare[kRowBlock * kTileRows];
    const int64_t real = m.rows - tile * kTileRows, stride = at.stride, ahead = at.ahead;
    const bool whole = T > 1 || real >= kTileRows;
    float *const out = at.out + tile * kTileRows;
    float *const target = whole ? out : spare;
    const uint8_t *const panel = at.panel;
    at.tile = m.data + tile * m.tile_bytes;
    at.stride = whole ? stride : kTileRows;
    const int32_t step = groups_at_once<F, T>(m.groups, rows);
    for (at.first = 0; at.first < m.groups; at.first = at.last) {
        at.last = at.first + step < m.groups ? at.first + step : m.groups;
        for (int64_t row = 0; row < rows; row += kPanel) {
            at.panel = panel + row / kPanel * kPanelGroup * m.groups;
            at.out = target + row * at.stride;
            for (at.lane = 0; at.lane < kTileRows; at.lane += V::kLanes) {
                // Once is enough.
                at.ahead = row == 0 && at.lane == 0 ? ahead : 0;
                multiply_panel<V, F, T>(at, rows - row < kPanel ? rows - row : kPanel);
            }
        }
    }
    if (whole) return;
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < real; ++i) out[row * stride + i] = spare[row * kTileRows + i];
    }
}

template <class V, Format F>
static void multiply_format(const PackedView &m, const uint8_t *panels, int64_t rows, float *out, int64_t stride,
                            int64_t first, int64_t last) {
    constexpr bool kFloat = traits_of(F).scheme == Scheme::none;
    constexpr int T = kFloat ? V::kFloatTiles : V::kCodeTiles;
    // The next tiles are fetched into the second cache while these are used; where they would not fit, the next
    // lines.
    const int64_t next = T * m.tile_bytes;
    const int64_t ahead = next <= 256 * 1024 ? next : 4096;
    const int64_t whole_tiles = m.rows / kTileRows;
    for (int64_t row = 0; row < rows; row += kRowBlock) {
        const int64_t count = rows - row < kRowBlock ? rows - row : kRowBlock;
        Place at = {};
        at.tile_bytes = m.tile_bytes;
        at.ahead = ahead;
        at.groups = m.groups;
        at.panel = panels + row / kPanel * m.groups * (kFloat ? kPanelGroupFloat : kPanelGroupInt8);
        at.out = out + row * stride;
        at.stride = stride;
        int64_t tile = first;
        for (; T > 1 && tile + T <= last && tile + T <= whole_tiles; tile += T) {
            multiply_tiles<V, F, T>(m, at, tile, count);
        }
        for (; tile < last; ++tile) multiply_tiles<V, F, 1>(m, at, tile, count);
    }
}

template <class V>
static void multiply(const PackedView &m, const uint8_t *panels, int64_t rows, float *out, int64_t stride,
                     int64_t first, int64_t last) {
    switch (m.format) {
        case Format::f32: return multiply_format<V, Format::f32>(m, panels, rows, out, stride, first, last);
        case Format::f16: return multiply_format<V, Format::f16>(m, panels, rows, out, stride, first, last);
        case Format::bf16: return multiply_format<V, Format::bf16>(m, panels, rows, out, stride, first, last);
        case Format::q4_0: return multiply_format<V, Format::q4_0>(m, panels, rows, out, stride, first, last);
        case Format::q4_1: return multiply_format<V, Format::q4_1>(m, panels, rows, out, stride, first, last);
        case Format::q5_0: return multiply_format<V, Format::q5_0>(m, panels, rows, out, stride, first, last);
        case Format::q5_1: return multiply_format<V, Format::q5_1>(m, panels, rows, out, stride, first, last);
        case Format::q8_0: return multiply_format<V, Format::q8_0>(m, panels, rows, out, stride, first, last);
        case Format::q4_k: return multiply_format<V, Format::q4_k>(m, panels, rows, out, stride, first, last);
        case Format::q5_k: return multiply_format<V, Format::q5_k>(m, panels, rows, out, stride, first, last);
        case Format::q6_k: return multiply_format<V, Format::q6_k>(m, panels, rows, out, stride, first, last);
    }
}

}  // namespace
}  // namespace radixrt
