// The numbers of a file: float32, float16 and bfloat16 at any address. Exact, NaNs stay NaNs.

#pragma once

#include "quant_layout.h"

namespace radixrt {
namespace {

RADIXRT_INLINE float float_at(const uint8_t *from) {
    float value;
    memcpy(&value, from, sizeof value);
    return value;
}

RADIXRT_INLINE float bfloat_at(const uint8_t *from) {
    uint16_t upper;
    memcpy(&upper, from, sizeof upper);
    const uint32_t bits = static_cast<uint32_t>(upper) << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Exponent and fraction move into their places, which leaves the exponent 112 too small: one exact product puts
// that right for normal and subnormal numbers alike. Infinities and NaNs get the exponent of their kind.
RADIXRT_INLINE float half_at(const uint8_t *from) {
#if defined(__aarch64__) && defined(__ARM_FP16_FORMAT_IEEE)
    __fp16 number;
    memcpy(&number, from, sizeof number);
    return number;
#else
    uint16_t half;
    memcpy(&half, from, sizeof half);
    uint32_t bits = static_cast<uint32_t>(half & 0x7fff) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 5.192296858534828e33f;  // 2^112
    memcpy(&bits, &value, sizeof value);
    if ((half & 0x7c00) == 0x7c00) bits |= 0x7f800000;
    bits |= static_cast<uint32_t>(half & 0x8000) << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
#endif
}

}  // namespace
}  // namespace radixrt
