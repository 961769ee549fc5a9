// What plain texts do to terms; see term_shapes.h.

#include "term_shapes.h"

#include <algorithm>

namespace radixrt {

namespace {

// The bytes of plain texts, and those that can begin one.
ByteSet plain_bytes() {
    ByteSet set;
    set.add_range(0x20, 0x7F);
    set.add_range(0x80, 0xBF);
    set.add_range(0xC2, 0xF4);
    ByteSet not_plain = ByteSet::single('"') | ByteSet::single('\\');
    return set & ~not_plain;
}

ByteSet first_plain_bytes() {
    ByteSet tails;
    tails.add_range(0x80, 0xBF);
    return plain_bytes() & ~tails;
}

}  // namespace

TermShapes::Known &TermShapes::known(Term term) {
    if (static_cast<size_t>(term) >= known_.size()) known_.resize(pool_.size());
    return known_[term];
}

int32_t TermShapes::reach(Term term, int depth) {
    if (depth == 0) return 0;
    const Known before = known(term);
    if (before.reach >= ENDLESS || depth <= before.reach_depth) return before.reach;
    const int32_t found = find_reach(term, depth);
    known(term).reach = found;
    known(term).reach_depth = static_cast<int8_t>(depth);
    return found;
}

int32_t TermShapes::find_reach(Term term, int depth) {
    pool_.spend(1);
    switch (pool_.kind(term)) {
        case Kind::REPEAT:
            if (!covers_plain(pool_.children(term)[0])) return 0;
            return static_cast<int32_t>(std::min<int64_t>(pool_.high_count(term), ENDLESS));
        case Kind::CONCAT: {
            const Term head = pool_.children(term)[0], tail = pool_.children(term)[1];
            const int32_t first = reach(head, depth - 1);
            return pool_.null(head) ? std::max(first, reach(tail, depth - 1)) : first;
        }
        case Kind::ALT: {
            int32_t most = 0;
            for (size_t i = 0; i < pool_.children(term).size() && most < ENDLESS; ++i) {
                const Term member = pool_.children(term)[i];
                pool_.spend(1);
                if (pool_.plain(member) || !pool_.is_empty(member)) most = std::max(most, reach(member, depth - 1));
            }
            return most;
        }
        case Kind::AND: return reach_of_all(term);
        default: return 0;
    }
}

// Repetitions of plain characters go on together as long as their counts allow.
int32_t TermShapes::reach_of_all(Term term) {
    int64_t low = 0, high = ENDLESS;
    for (size_t i = 0; i < pool_.children(term).size(); ++i) {
        const Term member = pool_.children(term)[i];
        pool_.spend(1);
        if (pool_.kind(member) != Kind::REPEAT || !covers_plain(pool_.children(member)[0])) return 0;
        low = std::max(low, pool_.low_count(member));
        high = std::min(high, pool_.high_count(member));
    }
    return static_cast<int32_t>(low <= high ? high : 0);
}

// Whether every plain character is a string of the term.
bool TermShapes::covers_plain(Term term) {
    if (known(term).covers >= 0) return known(term).covers != 0;
    bool covered = false;
    if (!pool_.sensitive(term)) {
        ByteSet first;
        for (const Arc &arc : pool_.arcs(term)) first |= arc.bytes;
        if (first_plain_bytes().within(first)) {
            if (plain_character_ == NONE) {
                const int32_t ranges[] = {0x20, '"' - 1, '"' + 1, '\\' - 1, '\\' + 1, 0x10FFFF};
                plain_character_ = pool_.chars(ranges, 3);
            }
            covered = pool_.is_empty(pool_.both(plain_character_, pool_.complement(term)));
        }
    }
    known(term).covers = covered;
    return covered;
}

bool TermShapes::leaves(Term term, int depth) {
    if (depth == 0) return false;
    const Known before = known(term);
    if (before.leaves == 1 || depth <= before.leaves_depth) return before.leaves == 1;
    const bool found = find_leaves(term, depth);
    known(term).leaves = found;
    known(term).leaves_depth = static_cast<int8_t>(depth);
    return found;
}

bool TermShapes::find_leaves(Term term, int depth) {
    for (; pool_.kind(term) == Kind::CONCAT; term = pool_.children(term)[1]) {
        pool_.spend(1);
        if (leaves(pool_.children(term)[0], depth - 1)) return true;
    }
    const Terms parts = pool_.children(term);
    pool_.spend(1 + static_cast<int64_t>(parts.size()));
    const auto leaves_here = [&](Term part) { return leaves(part, depth - 1); };
    switch (pool_.kind(term)) {
        case Kind::NONE: return true;
        case Kind::SET: return !pool_.set_of(term).intersects(plain_bytes());
        case Kind::ALT: return std::all_of(parts.begin(), parts.end(), leaves_here);
        case Kind::AND: return std::any_of(parts.begin(), parts.end(), leaves_here);
        case Kind::REPEAT: return pool_.low_count(term) > 0 && leaves(parts[0], depth - 1);
        default: return false;
    }
}

}  // namespace radixrt
