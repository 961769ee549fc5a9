// Vectors of 8 floats for AVX2 with FMA and F16C. See small_ops_simd.h for what each operation means.

#pragma once

#include <cstdint>
#include <immintrin.h>

namespace radixrt {
namespace {

struct Simd {
    using Reg = __m256;
    using Mask = __m256;
    static constexpr int kWidth = 8;
    static constexpr int kPanel = 2;  // registers of one row in a block of a product: 6 x 2 sums of 16 registers

    static __m256i numbers() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
    static __m256i below(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), numbers()); }
    static Reg zero() { return _mm256_setzero_ps(); }
    static Reg all(float x) { return _mm256_set1_ps(x); }
    static Reg load(const float *p) { return _mm256_loadu_ps(p); }
    static Reg load_part(const float *p, int n) { return _mm256_maskload_ps(p, below(n)); }
    static void store(float *p, Reg x) { _mm256_storeu_ps(p, x); }
    static void store_part(float *p, Reg x, int n) { _mm256_maskstore_ps(p, below(n), x); }
    static Reg load_half(const uint16_t *p) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
    }
    static void store_half(uint16_t *p, Reg x) {
        _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
    static Reg load_int8(const int8_t *p) {
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))));
    }
    static Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
    static Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
    static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
    static Reg div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
    static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
    static Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
    static Reg min(Reg a, Reg b) { return _mm256_min_ps(a, b); }
    static Reg absolute(Reg x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
    static Reg sign_of(Reg x, Reg magnitude) {
        return _mm256_or_ps(magnitude, _mm256_and_ps(x, _mm256_set1_ps(-0.0f)));
    }
    static Reg round(Reg x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
    static Reg power(__m256i n) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
    }
    // In two steps, of which only the second can round.
    static Reg times_power(Reg x, Reg n) {
        const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
        return mul(mul(x, power(half)), power(_mm256_sub_epi32(whole, half)));
    }
    static Reg choose(Mask m, Reg yes, Reg no) { return _mm256_blendv_ps(no, yes, m); }
    static Mask less(Reg a, Reg b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
    static Mask lanes(int first, int last) {
        return _mm256_castsi256_ps(_mm256_andnot_si256(below(first), below(last)));
    }
    static Mask mask_of_bits(uint32_t bits) {
        const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        const __m256i word = _mm256_set1_epi32(static_cast<int>(bits));
        return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(word, bit), bit));
    }
    static uint32_t bits_equal(Reg a, Reg b) {
        return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
    }
    static uint32_t bits_nan(Reg x) {
        return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
    }

    static void transpose(Reg *x) {
        Reg t[8];
        for (int i = 0; i < 8; i += 4) {
            const Reg a = _mm256_unpacklo_ps(x[i], x[i + 1]), b = _mm256_unpackhi_ps(x[i], x[i + 1]);
            const Reg c = _mm256_unpacklo_ps(x[i + 2], x[i + 3]), d = _mm256_unpackhi_ps(x[i + 2], x[i + 3]);
            t[i] = _mm256_shuffle_ps(a, c, 0x44), t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
            t[i + 2] = _mm256_shuffle_ps(b, d, 0x44), t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
        }
        for (int i = 0; i < 4; ++i) {
            x[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
            x[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
        }
    }
};

}  // namespace
}  // namespace radixrt
