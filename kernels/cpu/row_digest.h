// A 128-bit digest of a mask row, by which equal rows of different states are found. Keyed by the process: nobody
// outside can make two rows collide. Each word goes through two chains of folded multiplications under keys of their
// own, and SipHash has the last word. Nothing else is known here.
#ifndef RADIXRT_ROW_DIGEST_H
#define RADIXRT_ROW_DIGEST_H

#include <cstdint>
#include <cstring>

#include "siphash.h"

namespace radixrt {

inline HashKey row_digest(const uint32_t *row, int32_t words) {
    const auto folded = [](uint64_t a, uint64_t b) {
        const __uint128_t product = static_cast<__uint128_t>(a) * b;
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    };
    constexpr uint64_t STEP = 0x2545f4914f6cdd1dull;  // so that no chain stays at zero
    const uint64_t low = process_key().low | 1, high = process_key().high | 1;
    uint64_t chains[4] = {high, low, high + STEP, low + STEP};
    int32_t i = 0;
    for (; i + 4 <= words; i += 4) {
        uint64_t pair[2];
        std::memcpy(pair, row + i, sizeof pair);
        chains[0] = folded(chains[0] ^ pair[0], low) + STEP;
        chains[1] = folded(chains[1] ^ pair[0], high) + STEP;
        chains[2] = folded(chains[2] ^ pair[1], low) + STEP;
        chains[3] = folded(chains[3] ^ pair[1], high) + STEP;
    }
    SipHash last(process_key());
    for (const uint64_t chain : chains) last.add(chain);
    for (; i < words; ++i) last.add(row[i]);
    return last.digest();
}

}  // namespace radixrt

#endif
