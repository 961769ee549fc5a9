// Vectors of 16 floats for AVX-512 (F, BW, DQ, VL). See small_ops_simd.h for what each operation means.

#pragma once

#include <cstdint>

// gcc 12 takes the registers that its own header leaves undefined on purpose for a mistake.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

namespace radixrt {
namespace {

struct Simd {
    using Reg = __m512;
    using Mask = __mmask16;
    static constexpr int kWidth = 16;
    static constexpr int kPanel = 4;  // registers of one row in a block of a product: 6 x 4 sums of 32 registers

    static Mask first_lanes(int n) { return static_cast<Mask>((1u << n) - 1); }
    static Reg zero() { return _mm512_setzero_ps(); }
    static Reg all(float x) { return _mm512_set1_ps(x); }
    static Reg load(const float *p) { return _mm512_loadu_ps(p); }
    static Reg load_part(const float *p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
    static void store(float *p, Reg x) { _mm512_storeu_ps(p, x); }
    static void store_part(float *p, Reg x, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), x); }
    static Reg load_half(const uint16_t *p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
    }
    static void store_half(uint16_t *p, Reg x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
    static Reg load_int8(const int8_t *p) {
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
    }
    static Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
    static Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
    static Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
    static Reg div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
    static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
    static Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
    static Reg min(Reg a, Reg b) { return _mm512_min_ps(a, b); }
    static Reg absolute(Reg x) { return _mm512_abs_ps(x); }
    static Reg sign_of(Reg x, Reg magnitude) {
        return _mm512_or_ps(magnitude, _mm512_and_ps(x, _mm512_set1_ps(-0.0f)));
    }
    static Reg round(Reg x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
    static Reg times_power(Reg x, Reg n) { return _mm512_scalef_ps(x, n); }
    static Reg choose(Mask m, Reg yes, Reg no) { return _mm512_mask_blend_ps(m, no, yes); }
    static Mask less(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
    static Mask lanes(int first, int last) { return static_cast<Mask>(first_lanes(last) & ~first_lanes(first)); }
    static Mask mask_of_bits(uint32_t bits) { return static_cast<Mask>(bits); }
    static uint32_t bits_equal(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
    static uint32_t bits_nan(Reg x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }

    // Transposes x in place: lane j of x[i] becomes lane i of x[j].
    static void transpose(Reg *x) {
        Reg t[16];
        for (int i = 0; i < 16; i += 4) {
            const Reg a = _mm512_unpacklo_ps(x[i], x[i + 1]), b = _mm512_unpackhi_ps(x[i], x[i + 1]);
            const Reg c = _mm512_unpacklo_ps(x[i + 2], x[i + 3]), d = _mm512_unpackhi_ps(x[i + 2], x[i + 3]);
            t[i] = _mm512_shuffle_ps(a, c, 0x44), t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
            t[i + 2] = _mm512_shuffle_ps(b, d, 0x44), t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
        }
        for (int i = 0; i < 4; ++i) {
            const Reg a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88);
            const Reg b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
            const Reg c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
            const Reg d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
            x[i] = _mm512_shuffle_f32x4(a, c, 0x88), x[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
            x[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88), x[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
        }
    }
};

}  // namespace
}  // namespace radixrt
