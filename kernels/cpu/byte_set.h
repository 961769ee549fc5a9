// A set of bytes as 256 bits: byte b is bit b % 64 of word b / 64. Plain data, nothing else is known here.
#ifndef RADIXRT_BYTE_SET_H
#define RADIXRT_BYTE_SET_H

#include <cstdint>

namespace radixrt {

struct ByteSet {
    uint64_t w[4] = {0, 0, 0, 0};

    static ByteSet full() { return ByteSet{{~0ull, ~0ull, ~0ull, ~0ull}}; }
    static ByteSet single(int byte) {
        ByteSet set;
        set.add(byte);
        return set;
    }

    void add(int byte) { w[byte >> 6] |= 1ull << (byte & 63); }
    // Adds first .. last, both included.
    void add_range(int first, int last) {
        for (int byte = first; byte <= last; ++byte) add(byte);
    }
    bool has(int byte) const { return w[byte >> 6] >> (byte & 63) & 1; }
    bool any() const { return (w[0] | w[1] | w[2] | w[3]) != 0; }
    bool is_full() const { return (w[0] & w[1] & w[2] & w[3]) == ~0ull; }
    int count() const {
        return __builtin_popcountll(w[0]) + __builtin_popcountll(w[1]) + __builtin_popcountll(w[2]) +
               __builtin_popcountll(w[3]);
    }
    // The smallest byte; -1 for the empty set.
    int first() const {
        for (int i = 0; i < 4; ++i)
            if (w[i]) return 64 * i + __builtin_ctzll(w[i]);
        return -1;
    }
    bool intersects(const ByteSet &o) const {
        return ((w[0] & o.w[0]) | (w[1] & o.w[1]) | (w[2] & o.w[2]) | (w[3] & o.w[3])) != 0;
    }
    bool within(const ByteSet &o) const {
        return ((w[0] & ~o.w[0]) | (w[1] & ~o.w[1]) | (w[2] & ~o.w[2]) | (w[3] & ~o.w[3])) == 0;
    }
    bool operator==(const ByteSet &o) const {
        return ((w[0] ^ o.w[0]) | (w[1] ^ o.w[1]) | (w[2] ^ o.w[2]) | (w[3] ^ o.w[3])) == 0;
    }
    bool operator!=(const ByteSet &o) const { return !(*this == o); }
    // An arbitrary total order, to sort by.
    bool operator<(const ByteSet &o) const {
        for (int i = 0; i < 4; ++i)
            if (w[i] != o.w[i]) return w[i] < o.w[i];
        return false;
    }
    ByteSet operator&(const ByteSet &o) const {
        return {{w[0] & o.w[0], w[1] & o.w[1], w[2] & o.w[2], w[3] & o.w[3]}};
    }
    ByteSet operator|(const ByteSet &o) const {
        return {{w[0] | o.w[0], w[1] | o.w[1], w[2] | o.w[2], w[3] | o.w[3]}};
    }
    ByteSet operator~() const { return {{~w[0], ~w[1], ~w[2], ~w[3]}}; }
    ByteSet &operator&=(const ByteSet &o) { return *this = *this & o; }
    ByteSet &operator|=(const ByteSet &o) { return *this = *this | o; }
};

}  // namespace radixrt

#endif
