// Terms: storage, interning, and the constructors other than unions and intersections (term_unions.cpp).

#include "term_pool.h"

#include <algorithm>
#include <cstring>

#include "siphash.h"

namespace radixrt {

namespace {

int64_t add_lengths(int64_t a, int64_t b) { return a < INFINITE - b ? a + b : INFINITE; }

int64_t multiply_lengths(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INFINITE : std::min(product, INFINITE);
}

}  // namespace

// --- storage ---

Pool::Pool(int64_t fuel_, int32_t max_terms) : fuel(fuel_), any_byte(NONE), all(NONE), max_terms_(max_terms) {
    std::fill(std::begin(singles_), std::end(singles_), NONE);
    rehash(64);
    nodes_.push_back({0, 0, 0, 0, 0, -1, 0, Kind::NONE, PLAIN});
    nodes_.push_back({0, 0, 0, 0, 0, -1, 0, Kind::EMPTY, PLAIN | NULLABLE});
    any_byte = byte_set(ByteSet::full());
    all = repeated(any_byte, 0, INFINITE);
}

Pool::Pool(const Pool &other, int32_t count)
    : fuel(other.fuel), any_byte(other.any_byte), all(other.all), max_terms_(other.max_terms_) {
    const bool whole = count == other.size();
    nodes_.assign(other.nodes_.begin(), other.nodes_.begin() + count);
    const size_t words = whole ? other.words_.size() : other.nodes_[count].first;
    words_.assign(other.words_.begin(), other.words_.begin() + words);
    for (int byte = 0; byte < 256; ++byte) singles_[byte] = other.singles_[byte] < count ? other.singles_[byte] : NONE;
    if (whole) {
        slots_ = other.slots_;
        for (const auto &chunk : other.chunks_) {
            chunks_.emplace_back(new Arc[CHUNK]);
            std::memcpy(static_cast<void *>(chunks_.back().get()), chunk.get(), CHUNK * sizeof(Arc));
        }
        arc_end_ = other.arc_end_;
        sensitive_arcs_ = other.sensitive_arcs_;
        sensitive_null_ = other.sensitive_null_;
        return;
    }
    for (Node &node : nodes_) node.arcs = -1;  // they may lead to terms that are not here
    size_t capacity = 64;
    while (3 * capacity < 4 * static_cast<size_t>(count) + 4) capacity *= 2;
    slots_.assign(capacity, 0);
    for (const uint64_t slot : other.slots_)
        if (slot && static_cast<Term>(slot & 0xffffffffu) < count)
            link(slot, static_cast<Term>(slot & 0xffffffffu));
}

uint64_t Pool::hash_of(Kind kind, const int32_t *words, size_t count) const {
    // Keyed, so that nobody can write a grammar whose terms all collide.
    uint64_t state = process_key().low ^ static_cast<uint64_t>(kind) * 0x9e3779b97f4a7c15ull;
    for (size_t i = 0; i < count; ++i) {
        const __uint128_t product = static_cast<__uint128_t>(state ^ static_cast<uint32_t>(words[i])) *
                                    (process_key().high | 1);
        state = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
        state += 0x2545f4914f6cdd1dull;
    }
    return state & ~0xffffffffull;
}

Term Pool::find(Kind kind, const int32_t *words, size_t count, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    for (size_t i = (hash >> 32) & mask;; i = (i + 1) & mask) {
        const uint64_t slot = slots_[i];
        if (!slot) return NONE;
        if ((slot ^ hash) >> 32) continue;
        const Term term = static_cast<Term>(slot & 0xffffffffu);
        const Node &node = nodes_[term];
        if (node.kind == kind && node.count == count &&
            std::memcmp(words_.data() + node.first, words, count * sizeof(int32_t)) == 0)
            return term;
    }
}

void Pool::link(uint64_t hash, Term term) {
    const size_t mask = slots_.size() - 1;
    size_t i = (hash >> 32) & mask;
    while (slots_[i]) i = (i + 1) & mask;
    slots_[i] = (hash & ~0xffffffffull) | static_cast<uint32_t>(term);
}

void Pool::rehash(size_t capacity) {
    std::vector<uint64_t> old(capacity, 0);
    old.swap(slots_);
    for (const uint64_t slot : old)
        if (slot) link(slot, static_cast<Term>(slot & 0xffffffffu));
}

Term Pool::add(Kind kind, const int32_t *words, size_t count, uint64_t hash, const Node &facts) {
    spend(1);
    if (size() >= max_terms_) throw Refusal{Refusal::TERMS};
    if (words_.size() + count > UINT32_MAX) throw Refusal{Refusal::MEMORY};
    const Term term = size();
    if (4 * (nodes_.size() + 1) > 3 * slots_.size()) rehash(2 * slots_.size());
    Node node = facts;
    node.first = static_cast<uint32_t>(words_.size());
    node.count = static_cast<uint32_t>(count);
    node.arcs = -1;
    node.arc_count = 0;
    node.kind = kind;
    words_.insert(words_.end(), words, words + count);
    try {
        nodes_.push_back(node);
    } catch (...) {
        words_.resize(node.first);
        throw;
    }
    link(hash, term);
    return term;
}

// Find a term or make it; its other facts follow from its parts.
Term Pool::intern(Kind kind, const int32_t *words, size_t count, bool null, int64_t low, int64_t high) {
    const uint64_t hash = hash_of(kind, words, count);
    const Term found = find(kind, words, count, hash);
    if (found != NONE) return found;
    bool sensitive_ = kind == Kind::AHEAD || kind == Kind::BEHIND;
    bool plain_ = kind != Kind::AND && kind != Kind::NOT;
    uint64_t watches_ = 0;
    if (kind == Kind::BEHIND) watches_ = 1ull << words[0];
    for (const Term x : parts(kind, words, count)) {
        sensitive_ |= sensitive(x);
        plain_ &= plain(x);
        watches_ |= watches(x);
    }
    if (kind == Kind::CLOSED) {
        sensitive_ = plain_ = false;
        watches_ = 0;
    }
    const int facts = (null && !sensitive_ ? NULLABLE : 0) | (plain_ && !sensitive_ ? PLAIN : 0) |
                      (sensitive_ ? SENSITIVE : 0);
    return add(kind, words, count, hash, {low, high, watches_, 0, 0, -1, 0, kind, static_cast<uint8_t>(facts)});
}

int64_t Pool::long_at(Term t, size_t i) const {
    int64_t value;
    std::memcpy(&value, words(t) + i, sizeof value);
    return value;
}

// The parts of a term with these words.
Terms Pool::parts(Kind kind, const int32_t *words, size_t count) const {
    switch (kind) {
        case Kind::SET:
        case Kind::BEHIND: return {words, 0};
        case Kind::REPEAT: return {words, 1};
        default: return {words, count};
    }
}

Terms Pool::children(Term t) const { return parts(nodes_[t].kind, words(t), nodes_[t].count); }

ByteSet Pool::set_of(Term t) const {
    ByteSet set;
    std::memcpy(set.w, words(t), sizeof set.w);
    return set;
}

bool Pool::first_visit(Term term) {
    if (static_cast<size_t>(term) >= visited_.size()) visited_.resize(nodes_.size(), 0);
    if (visited_[term] == round_) return false;
    visited_[term] = round_;
    return true;
}

void Pool::next_round() {
    if (++round_ == 0) {
        std::fill(visited_.begin(), visited_.end(), 0);
        round_ = 1;
    }
}

int64_t Pool::nbytes() const {
    const size_t sensitive = 64 * (sensitive_arcs_.size() + sensitive_null_.size());
    return static_cast<int64_t>(sizeof *this + nodes_.capacity() * sizeof(Node) + 4 * words_.capacity() +
                                8 * slots_.capacity() + chunks_.size() * CHUNK * sizeof(Arc) + sensitive +
                                4 * (visited_.capacity() + came_from_.capacity() + clamped_.capacity()) +
                                sizeof(Fingerprint) * prints_.capacity());
}

// --- leaves ---

Term Pool::byte_set(const ByteSet &bytes) {
    if (!bytes.any()) return NONE;
    int32_t words[8];
    std::memcpy(words, bytes.w, sizeof words);
    return intern(Kind::SET, words, 8, false, 1, 1);
}

Term Pool::single(int byte) {
    if (singles_[byte] == NONE) singles_[byte] = byte_set(ByteSet::single(byte));
    return singles_[byte];
}

Term Pool::literal(const uint8_t *data, size_t size) {
    spend(static_cast<int64_t>(size));
    Term result = EMPTY;
    for (size_t i = size; i-- > 0;) {
        const Term byte = single(data[i]);
        result = result == EMPTY ? byte : pair(byte, result);
    }
    return result;
}

// --- one after the other ---

// The CONCAT of two terms that nothing simplifies: by far the commonest term.
Term Pool::pair(Term head, Term tail) {
    const int32_t words[2] = {head, tail};
    const uint64_t hash = hash_of(Kind::CONCAT, words, 2);
    const Term found = find(Kind::CONCAT, words, 2, hash);
    if (found != NONE) return found;
    const Node &a = nodes_[head], &b = nodes_[tail];
    const int facts = (a.facts & b.facts & (NULLABLE | PLAIN)) | ((a.facts | b.facts) & SENSITIVE);
    return add(Kind::CONCAT, words, 2, hash,
               {add_lengths(a.low, b.low), add_lengths(a.high, b.high), a.watches | b.watches, 0, 0, -1, 0,
                Kind::CONCAT, static_cast<uint8_t>(facts)});
}

// Put `head`, which is no CONCAT, before `tail`; neighbouring repetitions of one term become one.
Term Pool::join(Term head_, Term tail_) {
    for (;;) {
        if (head_ == EMPTY) return tail_;
        if (tail_ == EMPTY) return head_;
        const bool longer = is(tail_, Kind::CONCAT);
        const Term first = longer ? head(tail_) : tail_;
        const bool a = is(head_, Kind::REPEAT), b = is(first, Kind::REPEAT);
        if (!(a || b) || sensitive(head_)) return pair(head_, tail_);
        const Term x = a ? head(head_) : head_;
        if (x != (b ? head(first) : first)) return pair(head_, tail_);
        const int64_t low = (a ? low_count(head_) : 1), low2 = (b ? low_count(first) : 1);
        const int64_t high = (a ? high_count(head_) : 1), high2 = (b ? high_count(first) : 1);
        tail_ = longer ? tail(tail_) : EMPTY;
        head_ = repeated(x, std::min(add_lengths(low, low2), INFINITE - 1), add_lengths(high, high2));
        spend(1);
    }
}

Term Pool::concat(Term head, Term tail) {
    const Term both[2] = {head, tail};
    return concat(both, 2);
}

Term Pool::concat(const Term *terms, size_t count) {
    if (!count) return EMPTY;
    TermList spine;
    for (size_t i = 0; i < count; ++i)
        if (terms[i] == NONE) return NONE;
    for (size_t i = 0; i + 1 < count; ++i) {
        Term term = terms[i];
        for (; is(term, Kind::CONCAT); term = tail(term)) spine.push_back(head(term));
        spine.push_back(term);
    }
    spend(2 * static_cast<int64_t>(spine.size()));
    Term result = terms[count - 1];
    for (size_t i = spine.size(); i-- > 0;) result = join(spine[i], result);
    return result;
}

// --- repetitions ---

Term Pool::repeat(Term term, int64_t low, int64_t high) {
    if (low < 0 || high < low || high > INFINITE || low >= INFINITE) throw Refusal{Refusal::ARGUMENT};
    return sensitive(term) ? repeated_sensitive(term, low, high) : repeated(term, low, high);
}

Term Pool::repeated(Term x, int64_t low, int64_t high) {
    for (;;) {
        if (high == 0 || x == EMPTY) return EMPTY;
        if (x == NONE) return low ? NONE : EMPTY;
        if (is(x, Kind::ALT) && head(x) == EMPTY) {  // EMPTY has the smallest id that occurs there
            const Terms members = children(x);
            TermList others;
            others.append(members.data + 1, members.count - 1);
            x = alt(others.data(), others.size());
            low = 0;
        }
        if (null(x)) low = 0;
        if (low == 1 && high == 1) return x;
        if (!is(x, Kind::REPEAT)) break;
        // The counts k*a..k*b for k = low..high leave no gap.
        const int64_t a = low_count(x), b = high_count(x);
        const bool gapless = low == high || (low == 0 ? a <= 1 : multiply_lengths(low, b - a) >= a - 1);
        if (!gapless) break;
        low = std::min(multiply_lengths(a, low), INFINITE - 1);
        high = b == INFINITE || high == INFINITE ? INFINITE : multiply_lengths(b, high);
        x = head(x);
        spend(1);
    }
    int32_t words[5] = {x};
    std::memcpy(words + 1, &low, sizeof low);
    std::memcpy(words + 3, &high, sizeof high);
    const int64_t longest_ = longest(x) ? multiply_lengths(longest(x), high) : 0;
    return intern(Kind::REPEAT, words, 5, low == 0 || null(x), multiply_lengths(shortest(x), low), longest_);
}

// x{low,high} without its first round.
Term Pool::one_round_less(Term repeat) {
    const int64_t low = low_count(repeat), high = high_count(repeat);
    return repeated(head(repeat), std::max<int64_t>(low - 1, 0), high == INFINITE ? high : high - 1);
}

// Rounds that read nothing only add conditions, so beyond the `low` required ones they are left out.
Term Pool::repeated_sensitive(Term x, int64_t low, int64_t high) {
    if (zero_width(x) == NONE) return repeated(x, low, high);
    spend(low);
    const int64_t more = high == INFINITE ? INFINITE : high - low;
    Term result = repeated(consuming(x), 0, more);
    for (int64_t i = 0; i < low; ++i) result = concat(x, result);
    return result;
}

// --- complement and context ---

Term Pool::complement(Term term) {
    if (term == NONE) return all;
    if (term == EMPTY) return repeated(any_byte, 1, INFINITE);
    if (is(term, Kind::NOT)) return head(term);
    const bool counted = is(term, Kind::REPEAT);
    if ((counted ? head(term) : term) == any_byte) {
        const int64_t low = counted ? low_count(term) : 1, high = counted ? high_count(term) : 1;
        const Term below = low ? repeated(any_byte, 0, low - 1) : NONE;
        return alt(below, high < INFINITE ? repeated(any_byte, high + 1, INFINITE) : NONE);
    }
    return intern(Kind::NOT, &term, 1, !null(term), 0, INFINITE);
}

Term Pool::ahead(Term rest) {
    if (rest == NONE) return NONE;
    if (rest == all) return EMPTY;
    return intern(Kind::AHEAD, &rest, 1, false, 0, 0);
}

Term Pool::behind(int32_t index, bool yes) {
    if (index < 0) throw Refusal{Refusal::ARGUMENT};
    if (index > 63) throw Refusal{Refusal::WATCHED};
    const int32_t words[2] = {index, yes};
    return intern(Kind::BEHIND, words, 2, false, 0, 0);
}

}  // namespace radixrt
