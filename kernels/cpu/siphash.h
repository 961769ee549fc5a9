// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), over
// 64-bit words, under a key that is drawn once per process. Nothing else is known here.
#ifndef RADIXRT_SIPHASH_H
#define RADIXRT_SIPHASH_H

#include <cstdint>

namespace radixrt {

struct HashKey {
    uint64_t low, high;
};

const HashKey &process_key();

class SipHash {
  public:
    explicit SipHash(const HashKey &key) {
        v_[0] = key.low ^ 0x736f6d6570736575ull;
        v_[1] = key.high ^ 0x646f72616e646f6dull ^ 0xee;
        v_[2] = key.low ^ 0x6c7967656e657261ull;
        v_[3] = key.high ^ 0x7465646279746573ull;
    }
    void add(uint64_t word) {
        v_[3] ^= word;
        rounds(2);
        v_[0] ^= word;
        ++words_;
    }
    // Call once, after the last word.
    HashKey digest() {
        add(words_ << 59);  // the length in bytes, mod 256, in the top byte
        v_[2] ^= 0xee;
        rounds(4);
        HashKey result{v_[0] ^ v_[1] ^ v_[2] ^ v_[3], 0};
        v_[1] ^= 0xdd;
        rounds(4);
        result.high = v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
        return result;
    }

  private:
    static uint64_t rotated(uint64_t x, int by) { return x << by | x >> (64 - by); }
    void rounds(int count) {
        while (count--) {
            v_[0] += v_[1];
            v_[1] = rotated(v_[1], 13) ^ v_[0];
            v_[0] = rotated(v_[0], 32);
            v_[2] += v_[3];
            v_[3] = rotated(v_[3], 16) ^ v_[2];
            v_[0] += v_[3];
            v_[3] = rotated(v_[3], 21) ^ v_[0];
            v_[2] += v_[1];
            v_[1] = rotated(v_[1], 17) ^ v_[2];
            v_[2] = rotated(v_[2], 32);
        }
    }

    uint64_t v_[4];
    uint64_t words_ = 0;
};

}  // namespace radixrt

#endif
