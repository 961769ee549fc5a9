// The lazy pushdown automaton over bytes that runs a grammar.
//
// A state is a set of parts (open terminal, set of stacks), interned, so that states are ints and the rows of the
// transition table (state x byte class -> state) can be walked at the speed of memory. A row is made when it is first
// needed and never moves. Every state is alive: rules that produce nothing are gone from normalised rules, and a part
// whose terminal can no longer be finished is dropped. grammar/machine.py says the same in Python.
//
// One thread at a time. Work is counted in the pool's fuel; what is too much throws `Refusal` or `Overflow` and leaves
// the machine whole. What it does not know: tokens.
#ifndef RADIXRT_GRAMMAR_MACHINE_H
#define RADIXRT_GRAMMAR_MACHINE_H

#include <cstdint>
#include <memory>
#include <vector>

#include "grammar_rules.h"
#include "grammar_stacks.h"
#include "interner.h"
#include "term_pool.h"

namespace radixrt {

struct Limits {
    int64_t states, configurations, table_bytes;
};

struct Overflow {
    enum Code : int32_t { STATES = 1, CONFIGURATIONS = 2 };
    Code code;
};

class Machine {
  public:
    static constexpr int32_t DEAD = -1, UNKNOWN = -2;
    // These bytes occur in no text: events and token symbols, which are never forced.
    static constexpr int FIRST_PRIVATE_BYTE = 0xFE;

    // `pool` outlives the machine; the rules are copied.
    Machine(Pool &pool, const Rules &rules, const Limits &limits);
    // A machine for the same grammar that has read nothing, with a pool of its own and so much fuel.
    static std::unique_ptr<Machine> fresh(const Machine &other, int64_t fuel);
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;

    int32_t start() const { return start_; }
    int32_t size() const { return states_.size(); }
    bool accepting(int32_t state) const { return states_[state].data[0] != 0; }
    Pool &pool() { return pool_; }
    const uint8_t *class_of() const { return class_of_; }
    bool knows(int32_t state) const { return state >= 0 && state < size(); }

    // The transitions of a state by byte class; stays where it is.
    const int32_t *row(int32_t state) {
        int32_t *known = row_at(state);
        if (known[0] == UNKNOWN) expand(state);
        return known;
    }
    bool expanded(int32_t state) const { return row_at(state)[0] != UNKNOWN; }
    int32_t step(int32_t state, uint8_t byte) { return row(state)[class_of_[byte]]; }
    int32_t run(int32_t state, const uint8_t *data, size_t size);
    // The same through rows that are there; UNKNOWN where one is missing.
    int32_t try_run(int32_t state, const uint8_t *data, size_t size) const;
    ByteSet exits(int32_t state);
    // The bytes that follow with certainty, at most `room`; stops where the text may end. `state` moves along.
    size_t forced(int32_t &state, uint8_t *out, size_t room);

    View<Part> parts(int32_t state) const {  // valid until the next new state
        const Interner::Words words = states_[state];
        return {reinterpret_cast<const Part *>(words.data + 1), (words.count - 1) / 2};
    }
    int32_t bottom() const { return stacks_.bottom; }
    // The state in which a terminal has come to this part, nothing else being open; EMPTY: it is complete.
    int32_t after(Part part);
    // The state of some parts as if nothing else were open; each term once, sorted.
    int32_t state_of(const Part *parts, size_t count, bool accepting);
    // The same of any parts, which are sorted and merged.
    int32_t state_of_any(std::vector<Part> &parts) {
        stacks_.merge(parts);
        return state_of(parts.data(), parts.size(), false);
    }
    int64_t nbytes() const;

  private:
    static constexpr int32_t CHUNK_BITS = 5;
    struct Option {  // one way on: after these bytes, this part
        ByteSet bytes;
        Part part;
    };
    struct Group {  // byte classes with the same options: those of the group it came from, and one more
        int32_t parent, option;
        int32_t moved_by, moved_to;  // the last option that split it, and the group of what went on
        int32_t target;
    };

    int32_t *row_at(int32_t state) const {
        return chunks_[state >> CHUNK_BITS].get() +
               static_cast<size_t>(state & ((1 << CHUNK_BITS) - 1)) * class_count_;
    }
    void make_classes();
    void expand(int32_t state);
    void expand_one(Part part);
    void expand_many();
    void split_classes(int32_t option);
    int32_t after_group(int32_t group);
    int32_t after_reached();
    template <class Visit>
    void each_class(const ByteSet &bytes, Visit visit);
    void add_chunk();

    std::unique_ptr<Pool> own_;
    Pool &pool_;
    const int32_t first_terms_, first_rules_;  // what was there at the start
    Limits limits_;
    Rules rules_;
    Stacks stacks_;
    int32_t start_ = DEAD;

    int32_t class_count_ = 0;
    uint8_t class_of_[256];
    std::vector<uint8_t> one_of_;     // by class: one of its bytes
    std::vector<int32_t> class_size_;
    Interner states_;                 // accepting, parts..
    Interner singles_;                // parts that have been reached alone,
    std::vector<int32_t> single_states_;  // and the states there
    std::vector<std::unique_ptr<int32_t[]>> chunks_;

    // Of one expansion.
    std::vector<Option> options_;
    std::vector<Group> groups_;
    std::vector<int32_t> group_of_;   // by class
    std::vector<Part> parts_, reached_, open_;
    std::vector<int32_t> ended_, words_, targets_;
    uint32_t seen_[256] = {};         // by class: the round in which it was met
    uint32_t round_ = 0;
};

}  // namespace radixrt

#endif
