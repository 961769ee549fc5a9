// Sets of stacks: how a grammar goes on after a terminal.
//
// A stack is a list of items, each the rest of an alternative; sets of stacks are interned as frames (item, set of
// stacks below it), plus whether the input may end here. Sets are united only at the top, so stacks share their lower
// parts, and ambiguity costs frames instead of copies of stacks. A rule whose last symbol is another rule leaves no
// frame (tail call), hence lists do not grow the stack.
// grammar/stacks.py says the same in Python. What it does not know: bytes.
#ifndef RADIXRT_GRAMMAR_STACKS_H
#define RADIXRT_GRAMMAR_STACKS_H

#include <cstdint>
#include <queue>
#include <vector>

#include "grammar_rules.h"
#include "interner.h"
#include "term_pool.h"

namespace radixrt {

// An open terminal and the set of stacks it is read under.
struct Part {
    Term term;
    int32_t stacks;
    bool operator<(const Part &o) const { return term != o.term ? term < o.term : stacks < o.stacks; }
    bool operator==(const Part &o) const { return term == o.term && stacks == o.stacks; }
};

// A set of pairs of ints that is emptied in no time.
class PairSet {
  public:
    void clear();
    bool add(int32_t a, int32_t b);  // whether it is new

  private:
    std::vector<uint64_t> keys_;
    std::vector<uint32_t> rounds_;
    uint32_t round_ = 0;
    size_t count_ = 0;
};

class Stacks {
  public:
    static constexpr int32_t END = 0;  // the item after the last symbol of an alternative

    Stacks(Pool &pool, Rules &rules);

    int32_t bottom;  // the empty stack alone: the input may end
    int32_t size() const { return sets_.size(); }
    int32_t item(Symbol symbol, int32_t following);

    // All terminals that may be read first in `item` on top of `stacks`, each once; whether the input may end.
    bool close(int32_t item, int32_t stacks, std::vector<Part> &parts);
    // What may be read once a terminal is complete under `stacks`. Valid until the next call.
    bool after_terminal(int32_t stacks, View<Part> &parts);
    // The union of sets of stacks, in any order, repeated or not. `sets` is reordered.
    int32_t unite(int32_t *sets, size_t count);
    // Sort parts and unite the stacks of equal terms.
    void merge(std::vector<Part> &parts);
    size_t nbytes() const;

  private:
    struct Frame {
        int32_t item, below;
        bool operator<(const Frame &o) const { return item != o.item ? item < o.item : below < o.below; }
        bool operator==(const Frame &o) const { return item == o.item && below == o.below; }
    };
    // A rule in one closure: who called it, and what of that has been dealt with.
    struct Call {
        std::vector<Frame> waiting, done;
        bool ends = false, done_ends = false, begun = false;
    };
    struct Follow {
        int64_t first = -1;  // in follow_parts_; -1: not known
        int32_t count = 0;
        bool accepting = false;
    };

    bool ends(int32_t set) const { return sets_[set].data[0] != 0; }
    View<Frame> frames(int32_t set) const {
        const Interner::Words words = sets_[set];
        return {reinterpret_cast<const Frame *>(words.data + 1), (words.count - 1) / 2};
    }
    int32_t make(bool ends, const Frame *frames, size_t count);  // sorted, each once
    int32_t push(int32_t rest, int32_t stacks);
    bool is_star(Symbol rule);
    int32_t first_item(Rules::Alternative alternative);
    void begin();
    void enter(int32_t item, int32_t stacks);
    void call(Symbol rule, int32_t rest, int32_t stacks);
    void run();
    void replace(Symbol rule, int32_t stacks);
    Call &call_of(Symbol rule);

    Pool &pool_;
    Rules &rules_;
    Interner items_;                  // (symbol, following)
    Interner sets_;                   // may the input end, frames..
    std::vector<int8_t> stars_;       // by rule: -1 not known
    std::vector<int32_t> first_items_;  // by rule: where its first items are in item_list_, -1 not known
    std::vector<int32_t> item_list_;
    std::vector<Follow> follow_;      // by set of stacks
    std::vector<Part> follow_parts_;

    // One closure at a time.
    PairSet entered_, open_;
    std::vector<Frame> todo_, scratch_frames_;
    std::vector<Part> found_;
    bool accepting_ = false;
    std::vector<Call> calls_;
    size_t used_calls_ = 0;
    std::vector<int32_t> call_of_;    // by rule
    std::vector<Symbol> called_;
    struct Turn {
        int32_t rank;
        Symbol rule;
        bool operator<(const Turn &o) const { return rank != o.rank ? rank > o.rank : rule > o.rule; }
    };
    std::priority_queue<Turn> turns_;
    std::vector<int32_t> words_, united_;
};

}  // namespace radixrt

#endif
