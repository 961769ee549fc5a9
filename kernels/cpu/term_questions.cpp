// Questions about terms: what they match, which are empty, which bytes they tell apart, how they are built.

#include <algorithm>
#include <functional>
#include <random>

#include "siphash.h"
#include "term_pool.h"

namespace radixrt {

const HashKey &process_key() {
    static const HashKey key = [] {
        std::random_device source;
        const auto word = [&] { return static_cast<uint64_t>(source()) << 32 | source(); };
        return HashKey{word(), word()};
    }();
    return key;
}

bool Pool::nullable(Term term, uint64_t flags) {
    if (!sensitive(term)) return null(term);
    const Key asked = key(term, flags);
    SmallVector<Key, 32> stack;
    stack.push_back(asked);
    while (!stack.empty()) {
        const Key top = stack.back();
        if (sensitive_null_.find(top) != sensitive_null_.end()) {
            stack.pop_back();
            continue;
        }
        spend(1);
        const size_t size = stack.size();
        for (const Term x : children(top.term)) {
            const Key part = key(x, top.flags);
            if (sensitive(x) && sensitive_null_.find(part) == sensitive_null_.end()) stack.push_back(part);
        }
        if (stack.size() > size) continue;
        sensitive_null_.emplace(top, is_null(top));
        stack.pop_back();
    }
    return sensitive_null_.at(asked);
}

bool Pool::is_null(const Key &key_) {
    const Term term = key_.term;
    if (is(term, Kind::BEHIND)) return (key_.flags >> words(term)[0] & 1) == static_cast<uint64_t>(words(term)[1]);
    const auto part = [&](Term x) { return sensitive(x) ? sensitive_null_.at(key(x, key_.flags)) : null(x); };
    const Terms parts = children(term);
    switch (kind(term)) {
        case Kind::ALT: return std::any_of(parts.begin(), parts.end(), part);
        case Kind::NOT: return !part(parts[0]);
        case Kind::REPEAT: return low_count(term) == 0 || part(parts[0]);
        default: return std::all_of(parts.begin(), parts.end(), part);
    }
}

// A guess of how far the end of a shortest string is: intersections need all their parts.
int64_t Pool::distance(Term term) const {
    while (is(term, Kind::CLOSED)) term = head(term);
    if (!is(term, Kind::AND)) return shortest(term);
    int64_t sum = 0;
    for (const Term x : children(term)) sum = sum < INFINITE - shortest(x) ? sum + shortest(x) : INFINITE;
    return sum;
}

// Searches derivatives, the most promising first.
bool Pool::is_empty(Term term) {
    if (plain(term)) return term == NONE;
    if (sensitive(term)) throw Refusal{Refusal::SENSITIVE};
    if (nodes_[term].facts & SEARCHED) return nodes_[term].facts & FOUND_EMPTY;
    using Entry = std::pair<int64_t, Term>;
    std::vector<Entry> queue;
    std::vector<Term> seen;
    next_round();
    const auto enter = [&](Term x, Term from) {
        if (!first_visit(x)) return;
        if (static_cast<size_t>(x) >= came_from_.size()) came_from_.resize(nodes_.size());
        came_from_[x] = from;
        seen.push_back(x);
        queue.emplace_back(distance(x), x);
        std::push_heap(queue.begin(), queue.end(), std::greater<Entry>());
    };
    enter(term, term);
    while (!queue.empty()) {
        spend(1);
        std::pop_heap(queue.begin(), queue.end(), std::greater<Entry>());
        Term x = queue.back().second;
        queue.pop_back();
        const uint8_t facts = nodes_[x].facts;
        if (null(x) || (plain(x) && x != NONE) || (facts & (SEARCHED | FOUND_EMPTY)) == SEARCHED) {
            for (; x != term; x = came_from_[x]) keep_emptiness(x, false);
            keep_emptiness(term, false);
            return false;
        }
        for (const Arc &arc : arcs(x))
            if (!(nodes_[arc.rest].facts & FOUND_EMPTY)) enter(arc.rest, x);
    }
    for (const Term x : seen) keep_emptiness(x, true);
    return true;
}

Term Pool::step(Term term, int byte) {
    if (is(term, Kind::CONCAT) && is(head(term), Kind::SET)) return set_of(head(term)).has(byte) ? tail(term) : NONE;
    for (const Arc &arc : arcs(term))
        if (arc.bytes.has(byte)) return arc.rest;
    return NONE;
}

bool Pool::matches(Term term, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size && term != NONE; ++i) {
        spend(1);
        term = step(term, data[i]);
    }
    return nullable(term);
}

uint64_t Pool::flags_of(const Term *watched, size_t count) {
    uint64_t flags = 0;
    for (size_t i = 0; i < count; ++i)
        if (nullable(watched[i], flags)) flags |= 1ull << i;
    return flags;
}

Term Pool::closed(Term term, const Term *watched, size_t count) {
    if (!sensitive(term)) return term;
    uint64_t needed = watches(term);
    if (count < 64 && needed >> count) throw Refusal{Refusal::ARGUMENT};
    if (count > 64) throw Refusal{Refusal::WATCHED};
    for (size_t i = count; i-- > 0;)
        if (needed >> i & 1) needed |= watches(watched[i]);
    TermList args;
    args.push_back(term);
    for (size_t i = 0; i < count && needed >> i; ++i) args.push_back(needed >> i & 1 ? watched[i] : NONE);
    const uint64_t flags = flags_of(args.data() + 1, args.size() - 1);
    return intern(Kind::CLOSED, args.data(), args.size(), nullable(term, flags), shortest(term), longest(term));
}

// --- whole terms ---

std::vector<ByteSet> Pool::byte_classes(const Term *terms, size_t count) {
    std::vector<ByteSet> blocks{ByteSet::full()};
    ByteSet alone;  // bytes that some set holds by themselves, split off at the end
    std::vector<Term> stack;
    next_round();
    const auto enter = [&](const Term *items, size_t size) {
        for (size_t i = 0; i < size; ++i)
            if (first_visit(items[i])) stack.push_back(items[i]);
    };
    enter(terms, count);
    while (!stack.empty()) {
        const Term term = stack.back();
        stack.pop_back();
        spend(1);
        const Terms parts = children(term);
        enter(parts.data, parts.count);
        if (!is(term, Kind::SET)) continue;
        const ByteSet set = set_of(term);
        if (set.count() == 1) {
            alone |= set;
            continue;
        }
        spend(static_cast<int64_t>(blocks.size() / 8));
        const size_t size = blocks.size();
        for (size_t i = 0; i < size; ++i) {
            const ByteSet inside = blocks[i] & set;
            if (!inside.any() || inside == blocks[i]) continue;
            blocks[i] &= ~set;
            blocks.push_back(inside);
        }
    }
    std::vector<ByteSet> result;
    for (const ByteSet &block : blocks)
        if ((block & ~alone).any()) result.push_back(block & ~alone);
    for (int byte = 0; byte < 256; ++byte)
        if (alone.has(byte)) result.push_back(ByteSet::single(byte));
    return result;
}

int32_t Pool::first_bytes(Term term) {
    int32_t count = 0;
    for (const Arc &arc : arcs(term)) count += arc.bytes.count();
    return count;
}

Fingerprint Pool::print_of(Term term) const {
    SipHash hash(process_key());
    const Terms parts = children(term);
    hash.add(static_cast<uint64_t>(kind(term)) << 32 | static_cast<uint32_t>(parts.count));
    // Words that are no parts: the set, the counts, the index.
    for (size_t i = parts.count; i < nodes_[term].count; ++i) hash.add(static_cast<uint32_t>(words(term)[i]));
    SmallVector<Fingerprint, 8> prints;
    for (const Term x : parts) prints.push_back(prints_[x]);
    if (is(term, Kind::ALT) || is(term, Kind::AND))  // their order is that of ids, which differs between pools
        std::sort(prints.begin(), prints.end(), [](const Fingerprint &a, const Fingerprint &b) {
            return a.low != b.low ? a.low < b.low : a.high < b.high;
        });
    for (const Fingerprint &print : prints) {
        hash.add(print.low);
        hash.add(print.high);
    }
    const HashKey digest = hash.digest();
    return {digest.low, digest.high};
}

Fingerprint Pool::fingerprint(Term term) {
    prints_.resize(nodes_.size(), {0, 0});
    const auto is_new = [&](Term x) { return prints_[x] == Fingerprint{0, 0}; };
    if (is_new(term)) {
        std::vector<Term> order;
        collect(term, is_new, [](Term) { return true; }, order);
        for (const Term x : order) prints_[x] = print_of(x);
    }
    return prints_[term];
}

}  // namespace radixrt
