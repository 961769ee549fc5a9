// Interned regular expressions over bytes, their derivatives, and questions about them.
//
// A term is an int: two terms built the same way in one pool are the same int, so every fact about a term is kept
// by its id. The constructors apply laws of languages (x|x = x, x{a,b}x{c,d} = x{a+c,b+d}, ...) that keep the
// derivatives of the usual patterns few. The parts of a term always have smaller ids than the term itself.
// grammar/terms.py, derivatives.py and rx.py say in Python what all this means; results are equal as languages.
//
// Every loop spends fuel. Running out, too many terms and misuse throw `Refusal`, which the C interface turns into a
// code; the pool stays whole and usable. No recursion depends on the input. One pool belongs to one thread at a time.
//
// What it does not know: patterns, grammars, tokens.
#ifndef RADIXRT_TERM_POOL_H
#define RADIXRT_TERM_POOL_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "byte_set.h"
#include "small_vector.h"

namespace radixrt {

using Term = int32_t;
constexpr Term NONE = 0;   // no string at all
constexpr Term EMPTY = 1;  // the empty string alone
constexpr int64_t INFINITE = int64_t{1} << 62;  // an unbounded count or length

// SET: one byte of a set. CONCAT: (head, tail), the head being no CONCAT. ALT, AND: two or more, ascending.
// REPEAT: x from low to high times. AHEAD, zero-width: all that follows is in a language. BEHIND, zero-width: what
// was read is (not) in a watched language. CLOSED: (x, watched..) ends the reach of both. A term with an AHEAD or
// BEHIND outside of a CLOSED is *sensitive*: its derivatives depend on flags, bit i: watched language i holds.
enum class Kind : uint8_t { NONE, EMPTY, SET, CONCAT, ALT, AND, NOT, REPEAT, AHEAD, BEHIND, CLOSED };

struct Arc {
    ByteSet bytes;  // never empty; the arcs of a term are disjoint
    Term rest;      // what remains after any of them; never NONE
};

struct Refusal {
    enum Code : int32_t { FUEL = 1, TERMS = 2, SENSITIVE = 3, ARGUMENT = 4, MEMORY = 5, WATCHED = 6 };
    Code code;
};

// Some items that lie together; valid as long as the function that returned it says.
template <class T>
struct View {
    const T *data;
    size_t count;
    const T *begin() const { return data; }
    const T *end() const { return data + count; }
    size_t size() const { return count; }
    const T &operator[](size_t i) const { return data[i]; }
};
using Arcs = View<Arc>;
using Terms = View<Term>;

struct Fingerprint {
    uint64_t low, high;
    bool operator==(const Fingerprint &o) const { return low == o.low && high == o.high; }
};

class Pool {
  public:
    explicit Pool(int64_t fuel, int32_t max_terms = 700000);
    // The first `count` terms of a pool under the same ids (all of them: with what is known about them), same fuel.
    Pool(const Pool &other, int32_t count);
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    // --- work ---
    int64_t fuel;  // operations left; negative once refused
    void spend(int64_t amount) {
        if ((fuel -= amount) < 0) throw Refusal{Refusal::FUEL};
    }
    void refill(int64_t amount) { fuel = amount; }

    // --- constructors (term_pool.cpp, term_unions.cpp, term_rewrites.cpp) ---
    Term any_byte, all;  // one byte; every string of bytes
    Term byte_set(const ByteSet &bytes);
    Term literal(const uint8_t *data, size_t size);
    Term chars(const int32_t *ranges, size_t pairs);  // one character out of inclusive code point ranges, in UTF-8
    // Exactly one of these strings, string i being data[starts[i] .. starts[i + 1]); shaped like a trie.
    Term one_of(const uint8_t *data, const int64_t *starts, size_t strings);
    Term concat(const Term *terms, size_t count);
    Term concat(Term head, Term tail);
    Term alt(const Term *terms, size_t count);
    Term alt(Term a, Term b);
    Term both(const Term *terms, size_t count);  // intersection
    Term both(Term a, Term b);
    Term complement(Term term);  // within all strings of bytes
    Term repeat(Term term, int64_t low, int64_t high);  // high: INFINITE for no upper end
    Term star(Term term) { return repeat(term, 0, INFINITE); }
    Term ahead(Term rest);
    Term behind(int32_t index, bool yes);
    Term closed(Term term, const Term *watched, size_t count);
    Term zero_width(Term term);  // the conditions under which it matches without reading anything
    Term consuming(Term term);   // the part that reads at least one byte
    Term before_end(Term term, Term rest);  // concat, `rest` reaching the end: lookaheads become intersections
    Term substitute(Term term, const Term *images);  // every byte b spelled as images[b]

    // --- facts, known from birth ---
    int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
    Kind kind(Term t) const { return nodes_[t].kind; }
    bool null(Term t) const { return nodes_[t].facts & NULLABLE; }  // has the empty string; false for sensitive ones
    bool plain(Term t) const { return nodes_[t].facts & PLAIN; }    // no AND, NOT, context: not empty unless NONE
    bool sensitive(Term t) const { return nodes_[t].facts & SENSITIVE; }
    int64_t shortest(Term t) const { return nodes_[t].low; }  // bounds on the length of its strings in bytes
    int64_t longest(Term t) const { return nodes_[t].high; }
    uint64_t watches(Term t) const { return nodes_[t].watches; }
    // The parts of a term (empty for SET, BEHIND); valid until the next constructor.
    Terms children(Term t) const;
    ByteSet set_of(Term t) const;                 // of a SET
    int64_t low_count(Term t) const { return long_at(t, 1); }   // of a REPEAT
    int64_t high_count(Term t) const { return long_at(t, 3); }
    int32_t watched_index(Term t) const { return words(t)[0]; }    // of a BEHIND
    bool watched_yes(Term t) const { return words(t)[1] != 0; }

    // --- questions (derivatives.cpp, term_questions.cpp) ---
    Arcs arcs(Term term, uint64_t flags = 0);  // the derivatives; valid for the life of the pool
    bool nullable(Term term, uint64_t flags = 0);
    bool is_empty(Term term);  // no string at all; not for sensitive terms
    Term step(Term term, int byte);  // the derivative by one byte, NONE if there is none
    bool matches(Term term, const uint8_t *data, size_t size);

    // --- whole terms ---
    // The coarsest partition of the bytes that no derivative of `terms` can tell apart; at most 256 blocks.
    std::vector<ByteSet> byte_classes(const Term *terms, size_t count);
    // A term with the same next `depth` bytes, complete after the same of them; counts beyond become endless.
    Term clamped(Term term, int32_t depth);
    // Equal for terms of different pools of this process that are built alike. Keyed: nobody outside can make two
    // terms collide.
    Fingerprint fingerprint(Term term);
    int32_t first_bytes(Term term);  // how many different bytes may come next
    int64_t nbytes() const;          // memory held

    bool knows(Term t) const { return t >= 0 && t < size(); }

  private:
    enum Fact : uint8_t { NULLABLE = 1, PLAIN = 2, SENSITIVE = 4, SEARCHED = 8, FOUND_EMPTY = 16 };
    struct Node {
        int64_t low, high;
        uint64_t watches;
        uint32_t first, count;  // its words in words_
        int32_t arcs;           // where its arcs begin, or -1; not for sensitive terms
        uint16_t arc_count;
        Kind kind;
        uint8_t facts;
    };
    struct Key {
        Term term;
        uint64_t flags;  // of the watched languages that the term looks at; 0 for the others
        bool operator==(const Key &o) const { return term == o.term && flags == o.flags; }
    };
    struct KeyHash {
        size_t operator()(const Key &key) const {
            return static_cast<size_t>((static_cast<uint64_t>(key.term) + 1) * 0x9e3779b97f4a7c15ull ^
                                       key.flags * 0xd6e8feb86659fd93ull);
        }
    };
    struct Blocks;  // disjoint sets of bytes, each with a tuple of targets
    struct Counted {  // an alternative x{low,high} tail
        Term x, tail;
        int64_t low, high;
        Term term;  // itself; NONE for a part of no term
        bool operator<(const Counted &o) const {
            if (tail != o.tail) return tail < o.tail;
            if (x != o.x) return x < o.x;
            return low != o.low ? low < o.low : high < o.high;
        }
    };
    using CountedList = SmallVector<Counted, 8>;
    using TermList = SmallVector<Term, 24>;
    using ArcList = SmallVector<Arc, 8>;
    using Keys = SmallVector<Key, 16>;

    // storage
    uint64_t hash_of(Kind kind, const int32_t *words, size_t count) const;
    Term find(Kind kind, const int32_t *words, size_t count, uint64_t hash) const;
    Term intern(Kind kind, const int32_t *words, size_t count, bool null, int64_t low, int64_t high);
    Term add(Kind kind, const int32_t *words, size_t count, uint64_t hash, const Node &facts);
    void link(uint64_t hash, Term term);
    void rehash(size_t capacity);
    const int32_t *words(Term t) const { return words_.data() + nodes_[t].first; }
    int64_t long_at(Term t, size_t i) const;
    Terms parts(Kind kind, const int32_t *words, size_t count) const;
    Term head(Term t) const { return words(t)[0]; }
    Term tail(Term t) const { return words(t)[1]; }
    bool is(Term t, Kind kind) const { return nodes_[t].kind == kind; }

    // constructors
    Term single(int byte);
    Term pair(Term head, Term tail);
    Term join(Term head, Term tail);
    Term repeated(Term x, int64_t low, int64_t high);
    Term repeated_sensitive(Term x, int64_t low, int64_t high);
    Term one_round_less(Term repeat);
    void flatten(Kind kind, const Term *terms, size_t count, TermList &out);
    void merge_alternatives(TermList &members);
    void drop_implied(TermList &members);
    void merge_counts(CountedList &counted, TermList &merged);
    bool opens(Term x) const;
    void factors(Term term, TermList &out) const;
    std::vector<Term> opened(Term term);
    Term image_of(Term x, const TermList &parts, const Term *images, Term valid);
    Fingerprint print_of(Term term) const;
    // A term and its parts for which `wanted`, those of a term only if `entered`; ascending, so parts come first.
    template <class Wanted, class Entered>
    void collect(Term term, Wanted wanted, Entered entered, std::vector<Term> &out) {
        next_round();
        first_visit(term);
        out.push_back(term);
        for (size_t i = 0; i < out.size(); ++i) {
            const Term x = out[i];
            spend(1);
            if (!entered(x)) continue;
            for (const Term y : children(x))
                if (wanted(y) && first_visit(y)) out.push_back(y);
        }
        std::sort(out.begin(), out.end());
    }

    // derivatives
    Key key(Term term, uint64_t flags) const {
        return {term, sensitive(term) ? flags & nodes_[term].watches : 0};
    }
    uint64_t flags_of(const Term *watched, size_t count);
    bool immediate(Term t) const { return is(t, Kind::SET) || (is(t, Kind::CONCAT) && is(head(t), Kind::SET)); }
    bool known(const Key &key) const;
    Arcs recall(const Key &key) const;
    Arcs keep(const Key &key, ArcList &arcs);
    void append_arcs(const Key &key, ArcList &out) const;
    void needed(const Key &key, Keys &out);
    void derive(const Key &key, ArcList &out);
    void derive_both(const Key &key, ArcList &out);
    void derive_closed(Term term, ArcList &out);
    Term unfold(Term term, uint64_t flags);
    bool is_null(const Key &key);
    void unite(ArcList &arcs);
    void join_arcs(ArcList &arcs) const;
    void refine(Blocks &blocks, const ArcList &arcs, bool total);
    int64_t distance(Term term) const;
    void keep_emptiness(Term term, bool empty) {
        nodes_[term].facts |= static_cast<uint8_t>(SEARCHED | (empty ? FOUND_EMPTY : 0));
    }
    bool first_visit(Term term);  // since the last next_round()
    void next_round();

    std::vector<Node> nodes_;
    std::vector<int32_t> words_;
    std::vector<uint64_t> slots_;  // open addressing: upper half of the hash << 32 | term; 0 is free
    int32_t max_terms_;
    Term singles_[256];
    // Arcs lie in chunks that never move; a list never spans two.
    static constexpr int32_t CHUNK = 512;
    std::vector<std::unique_ptr<Arc[]>> chunks_;
    int32_t arc_end_ = 0;
    struct Span {
        int32_t first;
        int32_t count;
    };
    std::unordered_map<Key, Span, KeyHash> sensitive_arcs_;
    std::unordered_map<Key, bool, KeyHash> sensitive_null_;
    std::vector<uint32_t> visited_;
    uint32_t round_ = 0;
    std::vector<Term> came_from_;
    std::vector<Term> clamped_;  // for clamp_depth_; -1: not known
    int32_t clamp_depth_ = -1;
    std::vector<Fingerprint> prints_;  // zero: not known
};

}  // namespace radixrt

#endif
