// What the terms of one pool look like from far: enough to see without a walk that a terminal allows the same as
// another, or anything plain (token_trie.h). All answers are on the safe side; no search is longer than its patience.
// What it does not know: stacks, tokens.
#ifndef RADIXRT_TERM_SHAPES_H
#define RADIXRT_TERM_SHAPES_H

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "term_pool.h"

namespace radixrt {

class TermShapes {
  public:
    static constexpr int32_t ENDLESS = 1 << 30;

    explicit TermShapes(Pool &pool) : pool_(pool) {}
    // After any plain text of at most so many bytes the term can go on. The term is not empty.
    int32_t of(Term term) { return reach(term, DEEPEST); }
    // Every string of the term has a byte that no plain text has.
    bool always_leaves(Term term) { return leaves(term, DEEPEST); }
    // A term that has the same prefixes.
    Term same_prefixes(Term term);
    // A term that allows the same next `depth` bytes and is complete after the same of them: where a pattern and a
    // count must both hold, the count is dropped that the pattern cannot come near to.
    Term loosened(Term term, int32_t depth);

  private:
    static constexpr int DEEPEST = 12;  // of terms in terms that are looked at
    static constexpr int PATIENCE = 512;  // terms looked at for one answer of `within_star`
    // What is known of a term that was looked into so deep: enough where it is the most, or no deeper look is asked.
    struct Known {
        int32_t reach = -1;
        int8_t reach_depth = -1, leaves = -1, leaves_depth = -1, covers = -1;
        int64_t way_out = -1;
    };
    Known &known(Term term);
    int32_t reach(Term term, int depth);
    int32_t find_reach(Term term, int depth);
    int32_t reach_of_all(Term term);
    bool leaves(Term term, int depth);
    bool find_leaves(Term term, int depth);
    bool covers_plain(Term term);
    bool within_star(Term term, Term star);
    bool within_star(Term term, Term star, int depth);
    bool find_within_star(Term term, Term star, int depth);
    int64_t way_out(Term term, int depth);
    int64_t find_way_out(Term term, int depth);
    Term loosened(Term term, int32_t distance, int depth);
    Term without_counts(Term term, int32_t distance);
    Term endless_part(Term term) const;

    Pool &pool_;
    Term plain_character_ = NONE;
    int patience_ = 0;
    std::vector<Known> known_;  // by term
    std::unordered_map<Term, Term> prefixes_, loosened_;
    std::unordered_map<uint64_t, bool> within_;  // term << 32 | star
    int32_t distance_ = -1;                      // of what is in loosened_
};

}  // namespace radixrt

#endif
