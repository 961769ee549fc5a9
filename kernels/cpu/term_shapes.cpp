// Terms that read alike for a while; see term_shapes.h.

#include "term_shapes.h"

#include <algorithm>

namespace radixrt {

// --- prefixes: x* rest has those of x* alone if rest lies within x* ---

// The x* that a term begins with, so that its prefixes are among those of the term; NONE if there is none.
Term TermShapes::endless_part(Term term) const {
    const Term head = pool_.kind(term) == Kind::CONCAT ? pool_.children(term)[0] : term;
    if (pool_.kind(head) != Kind::REPEAT || pool_.high_count(head) != INFINITE || !pool_.plain(term)) return NONE;
    return head;
}

Term TermShapes::same_prefixes(Term term) {
    const auto before = prefixes_.find(term);
    if (before != prefixes_.end()) return before->second;
    Term result = term;
    Term endless = endless_part(term);
    if (pool_.kind(term) == Kind::ALT)
        for (size_t i = 0; i < pool_.children(term).size() && endless == NONE; ++i)
            endless = endless_part(pool_.children(term)[i]);
    if (endless != NONE) {
        const Term star = pool_.star(pool_.children(endless)[0]);
        if (within_star(term, star)) result = star;
    }
    prefixes_[term] = result;
    return result;
}

// Whether all strings of a term are surely in `star`, which is x*.
bool TermShapes::within_star(Term term, Term star) {
    patience_ = PATIENCE;
    return within_star(term, star, DEEPEST);
}

bool TermShapes::within_star(Term term, Term star, int depth) {
    if (depth == 0 || --patience_ < 0) return false;
    pool_.spend(1);
    const uint64_t key = static_cast<uint64_t>(term) << 32 | static_cast<uint32_t>(star);
    const auto before = within_.find(key);
    if (before != within_.end()) return before->second;
    const bool found = find_within_star(term, star, depth);
    if (found || depth == DEEPEST) within_[key] = found;
    return found;
}

bool TermShapes::find_within_star(Term term, Term star, int depth) {
    const Term round = pool_.children(star)[0];
    const auto inside = [&](Term part) { return within_star(part, star, depth - 1); };
    for (;;) {
        if (term == round || term == EMPTY || term == star) return true;
        if (pool_.kind(term) != Kind::CONCAT || --patience_ < 0 || !inside(pool_.children(term)[0])) break;
        term = pool_.children(term)[1];
    }
    const size_t parts = pool_.children(term).size();
    switch (pool_.kind(term)) {
        case Kind::REPEAT: return inside(pool_.children(term)[0]);
        case Kind::ALT:
            for (size_t i = 0; i < parts; ++i)
                if (!inside(pool_.children(term)[i])) return false;
            return true;
        case Kind::AND:
            for (size_t i = 0; i < parts; ++i)
                if (inside(pool_.children(term)[i])) return true;
            return false;
        case Kind::SET:
        case Kind::CONCAT:
            // One character, or a few: small enough to be decided by search.
            return pool_.longest(term) <= 8 && pool_.is_empty(pool_.both(term, pool_.complement(star)));
        default: return false;
    }
}

// --- counts beside patterns: P & x{0,n} reads like P as long as there is room to finish P ---

// From every beginning of a string of the term, one can be finished within so many bytes.
int64_t TermShapes::way_out(Term term, int depth) {
    if (depth == 0 || !pool_.plain(term)) return INFINITE;
    if (known(term).way_out >= 0) return known(term).way_out;
    const int64_t found = std::min(find_way_out(term, depth), INFINITE);
    if (found < INFINITE || depth == DEEPEST) known(term).way_out = found;
    return found;
}

int64_t TermShapes::find_way_out(Term term, int depth) {
    pool_.spend(1 + static_cast<int64_t>(pool_.children(term).size()));
    int64_t longest = 0;
    switch (pool_.kind(term)) {
        case Kind::SET: return 1;
        case Kind::ALT:
            for (const Term member : pool_.children(term)) longest = std::max(longest, way_out(member, depth - 1));
            return longest;
        case Kind::REPEAT: {
            const Term round = pool_.children(term)[0];
            const int64_t low = pool_.low_count(term), size = pool_.shortest(round);
            if (low && size > INFINITE / low) return INFINITE;
            return way_out(round, depth - 1) + low * size;
        }
        case Kind::CONCAT:
            for (; pool_.kind(term) == Kind::CONCAT; term = pool_.children(term)[1]) {
                if (--patience_ < 0) return INFINITE;
                const Term head = pool_.children(term)[0], tail = pool_.children(term)[1];
                longest = std::max(longest, way_out(head, depth - 1) + pool_.shortest(tail));
            }
            return std::max(longest, way_out(term, depth - 1));
        default: return 0;
    }
}

Term TermShapes::loosened(Term term, int32_t distance) {
    if (pool_.plain(term)) return term;
    if (distance != distance_) loosened_.clear();
    distance_ = distance;
    const auto before = loosened_.find(term);
    if (before != loosened_.end()) return before->second;
    const Term result = loosened(term, distance, 4);
    loosened_[term] = result;
    return result;
}

Term TermShapes::loosened(Term term, int32_t distance, int depth) {
    if (depth == 0 || pool_.plain(term)) return term;
    pool_.spend(1);
    if (pool_.kind(term) == Kind::AND) return without_counts(term, distance);
    if (pool_.kind(term) == Kind::CONCAT) {
        const Term head = pool_.children(term)[0], tail = pool_.children(term)[1];
        const Term loose = loosened(head, distance, depth - 1);
        return loose == head ? term : pool_.concat(loose, tail);
    }
    if (pool_.kind(term) != Kind::ALT || pool_.children(term).size() > 64) return term;
    std::vector<Term> members(pool_.children(term).begin(), pool_.children(term).end());
    for (Term &member : members) member = loosened(member, distance, depth - 1);
    return pool_.alt(members.data(), members.size());
}

Term TermShapes::without_counts(Term term, int32_t distance) {
    Term pattern = NONE;
    std::vector<Term> counts;
    for (const Term member : pool_.children(term)) {
        const bool counted = pool_.kind(member) == Kind::REPEAT && pool_.low_count(member) <= 1;
        if (!counted && pattern != NONE) return term;
        if (counted)
            counts.push_back(member);
        else
            pattern = member;
    }
    if (pattern == NONE) return term;
    patience_ = PATIENCE;
    const int64_t room = distance + way_out(pattern, DEEPEST);
    for (const Term count : counts) {
        if (pool_.high_count(count) < room || (pool_.low_count(count) && pool_.null(pattern))) return term;
        if (!within_star(pattern, pool_.star(pool_.children(count)[0]))) return term;
    }
    return pattern;
}

}  // namespace radixrt
