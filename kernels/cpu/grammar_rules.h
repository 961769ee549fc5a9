// Rules of a context-free grammar as flat arrays, and what must be known of them before they are run: which can
// produce something, which the root reaches, which stand first in which.
//
// A symbol is an int: ~term for a terminal (negative), else the number of a rule. A rule is a list of alternatives or
// a counted repetition, whose alternatives are made on demand: repeat(x, 2, 9) is x repeat(x, 1, 8).
// grammar/rules.py and cfg.py say the same in Python. What it does not know: bytes, states, how rules were spelled.
#ifndef RADIXRT_GRAMMAR_RULES_H
#define RADIXRT_GRAMMAR_RULES_H

#include <cstdint>
#include <vector>

#include "interner.h"
#include "term_pool.h"

namespace radixrt {

using Symbol = int32_t;

inline bool is_terminal(Symbol symbol) { return symbol < 0; }
inline Term term_of(Symbol terminal) { return ~terminal; }

class Rules {
  public:
    enum Outcome : int32_t { FINE = 0, UNSATISFIABLE = -1, LEFT_RECURSIVE = -2, MALFORMED = -3 };
    struct Repeat {
        Symbol symbol;  // NOTHING for a rule that is no repetition
        int64_t low, high;
    };
    static constexpr Symbol NOTHING = INT32_MIN;
    struct Alternative {
        const Symbol *data;
        size_t count;
        const Symbol *begin() const { return data; }
        const Symbol *end() const { return data + count; }
    };

    Rules() = default;
    // `flat`: for each rule the number of its alternatives, and for each of these its length and its symbols.
    // `repeats`: (rule, symbol, low, high) of each counted repetition. FINE, or MALFORMED.
    Outcome read(const Pool &pool, const int32_t *flat, size_t words, int32_t rules, const int64_t *repeats,
                 size_t repeat_count);
    // Keep what produces something and what `root` reaches, and rank it. Not FINE: the table is as it was.
    Outcome normalise(Pool &pool, Symbol root);

    int32_t size() const { return static_cast<int32_t>(repeats_.size()); }
    Symbol root() const { return root_; }
    bool is_repeat(Symbol rule) const { return repeats_[rule].symbol != NOTHING; }
    const Repeat &repeat(Symbol rule) const { return repeats_[rule]; }
    int32_t alternatives(Symbol rule) const { return first_[rule + 1] - first_[rule]; }
    Alternative alternative(Symbol rule, int32_t i) const {
        const int32_t at = first_[rule] + i;
        return {symbols_.data() + begin_[at], static_cast<size_t>(begin_[at + 1] - begin_[at])};
    }
    // Rules are called in ascending order: callers through left corners come first.
    int32_t rank(Symbol rule) const { return ranks_[rule]; }
    // What is left of a repetition after one round: NOTHING, or a rule that may be new.
    Symbol after_one(Pool &pool, Symbol rule);
    // Forget the rules that `after_one` made beyond the first `count`.
    void truncate(int32_t count);
    // The terminals that occur.
    std::vector<Term> terminals() const;
    size_t nbytes() const;

  private:
    using Flags = std::vector<uint8_t>;
    template <class Visit>
    void each_alternative(Symbol rule, Visit visit) const;
    template <class Lives>
    Flags least(Pool &pool, Lives lives) const;  // the rules all of whose parts are so, by one alternative
    Flags nullable(Pool &pool) const;
    void select(Pool &pool, Symbol root, const Flags &productive);
    bool rank_all(Pool &pool);
    void add_rule(const Repeat &repeat);
    void index_repeats();

    Symbol root_ = 0;
    std::vector<Repeat> repeats_;
    std::vector<int32_t> first_{0};   // by rule: its alternatives
    std::vector<uint32_t> begin_{0};  // by alternative: its symbols
    std::vector<Symbol> symbols_;
    std::vector<int32_t> ranks_;
    Interner repeat_keys_;
    std::vector<Symbol> repeat_rules_;  // by number in repeat_keys_
};

}  // namespace radixrt

#endif
