// Sequences of int32 under numbers: two equal sequences have the same number, numbers count from 0.
// Hashes are keyed by the process, so that nobody can write a grammar whose sequences all collide.
// What it does not know: what the words mean.
#ifndef RADIXRT_INTERNER_H
#define RADIXRT_INTERNER_H

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "siphash.h"

namespace radixrt {

class Interner {
  public:
    struct Words {
        const int32_t *data;
        size_t count;
    };

    Interner() : ends_(1, 0), slots_(16, 0) {}

    int32_t size() const { return static_cast<int32_t>(ends_.size()) - 1; }
    // Valid until the next `add`.
    Words operator[](int32_t id) const { return {words_.data() + ends_[id], ends_[id + 1] - ends_[id]}; }

    static uint64_t hash(const int32_t *words, size_t count) {
        uint64_t state = process_key().low ^ count;
        for (size_t i = 0; i < count; ++i) {
            const __uint128_t product =
                static_cast<__uint128_t>(state ^ static_cast<uint32_t>(words[i])) * (process_key().high | 1);
            state = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
            state += 0x2545f4914f6cdd1dull;
        }
        return state;
    }

    // The number of a sequence, or -1.
    int32_t find(const int32_t *words, size_t count, uint64_t hash) const {
        const size_t mask = slots_.size() - 1;
        for (size_t i = (hash >> 32) & mask;; i = (i + 1) & mask) {
            const uint64_t slot = slots_[i];
            if (!slot) return -1;
            if ((slot ^ hash) >> 32) continue;
            const int32_t id = static_cast<int32_t>(slot & 0xffffffffu) - 1;
            const Words known = (*this)[id];
            if (known.count == count && (!count || std::memcmp(known.data, words, count * sizeof *words) == 0))
                return id;
        }
    }

    // A sequence that is not there yet; `words` must lie outside of the interner.
    int32_t add(const int32_t *words, size_t count, uint64_t hash) {
        if (words_.size() + count > UINT32_MAX) throw std::bad_alloc();
        const int32_t id = size();
        if (4 * (ends_.size() + 1) > 3 * slots_.size()) grow();
        words_.insert(words_.end(), words, words + count);
        ends_.push_back(static_cast<uint32_t>(words_.size()));
        link(hash, id);
        return id;
    }

    size_t nbytes() const { return 4 * words_.capacity() + 4 * ends_.capacity() + 8 * slots_.capacity(); }

  private:
    void link(uint64_t hash, int32_t id) {
        const size_t mask = slots_.size() - 1;
        size_t i = (hash >> 32) & mask;
        while (slots_[i]) i = (i + 1) & mask;
        slots_[i] = (hash & ~0xffffffffull) | static_cast<uint32_t>(id + 1);
    }
    void grow() {
        std::vector<uint64_t> old(2 * slots_.size(), 0);
        old.swap(slots_);
        for (const uint64_t slot : old)
            if (slot) link(slot, static_cast<int32_t>(slot & 0xffffffffu) - 1);
    }

    std::vector<int32_t> words_;
    std::vector<uint32_t> ends_;
    std::vector<uint64_t> slots_;  // open addressing: upper half of the hash << 32 | number + 1; 0 is free
};

}  // namespace radixrt

#endif
