// Unions and intersections of terms, and what is made of many of them at once: characters, lists of strings.

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "term_pool.h"

namespace radixrt {

namespace {

void sort_unique(SmallVector<Term, 24> &terms) {
    if (terms.size() < 2) return;
    if (!std::is_sorted(terms.begin(), terms.end())) std::sort(terms.begin(), terms.end());
    terms.resize(static_cast<size_t>(std::unique(terms.begin(), terms.end()) - terms.begin()));
}

// Pairs of alternatives that are compared to find out which of them implies another.
constexpr int64_t kMostPairs = 1024;

// An alternative that begins with a set of bytes.
struct Headed {
    Term tail, term;
    bool operator<(const Headed &o) const { return tail != o.tail ? tail < o.tail : term < o.term; }
};

struct CodeRange {
    uint32_t first, last;
};

}  // namespace

// --- unions ---

// The members of a union or intersection, ascending, without nested ones of the same kind.
void Pool::flatten(Kind kind, const Term *terms, size_t count, TermList &out) {
    for (size_t i = 0; i < count; ++i) {
        if (is(terms[i], kind)) {
            const Terms inner = children(terms[i]);
            spend(static_cast<int64_t>(inner.count));
            out.append(inner.data, inner.count);
        } else {
            out.push_back(terms[i]);
        }
    }
    spend(static_cast<int64_t>(count));
    sort_unique(out);
}

Term Pool::alt(Term a, Term b) {
    if (a == b || b == NONE) return a;
    if (a == NONE) return b;
    const Term two[2] = {a, b};
    return alt(two, 2);
}

Term Pool::alt(const Term *terms, size_t count) {
    if (count == 1) return terms[0];
    TermList members;
    flatten(Kind::ALT, terms, count, members);
    if (!members.empty() && members[0] == NONE) members.erase(0);
    for (int pass = 0; pass < 2; ++pass) {
        if (std::binary_search(members.begin(), members.end(), all)) return all;
        if (members.size() < 2) return members.empty() ? NONE : members[0];
        if (pass == 0) merge_alternatives(members);
    }
    drop_implied(members);
    if (members.size() == 1) return members[0];
    if (members[0] == EMPTY) {
        const bool implied = std::any_of(members.begin() + 1, members.end(), [&](Term x) { return null(x); });
        if (implied) members.erase(0);
        if (members.size() == 1) return members[0];
    }
    bool nullable_ = false;
    int64_t low = INFINITE, high = 0;
    for (const Term x : members) {
        nullable_ |= null(x);
        low = std::min(low, shortest(x));
        high = std::max(high, longest(x));
    }
    return intern(Kind::ALT, members.data(), members.size(), nullable_, low, high);
}

// x or (x and y) is x. Without this, a search for an intersection has one for each order of its parts.
void Pool::drop_implied(TermList &members) {
    const auto is_both = [&](Term x) { return is(x, Kind::AND); };
    const int64_t pairs = std::count_if(members.begin(), members.end(), is_both) * static_cast<int64_t>(members.size());
    if (pairs == 0 || pairs > kMostPairs) return;
    spend(pairs);
    const auto implied = [&](Term x) {
        if (!is_both(x)) return false;
        const Terms parts = children(x);
        const Term *first = parts.data, *last = parts.data + parts.count;
        return std::any_of(members.begin(), members.end(), [&](Term other) {
            if (!is_both(other)) return std::binary_search(first, last, other);
            const Terms fewer = children(other);
            return other != x && std::includes(first, last, fewer.data, fewer.data + fewer.count);
        });
    };
    TermList kept;
    for (const Term x : members)
        if (!implied(x)) kept.push_back(x);
    if (kept.size() == members.size()) return;
    members.clear();
    members.append(kept.data(), kept.size());
}

// Add repetitions to `merged`, those of one term before one tail united where their counts touch.
void Pool::merge_counts(CountedList &counted, TermList &merged) {
    if (counted.empty()) return;
    // x alone and the empty string are repetitions too where there are others of x without a tail.
    sort_unique(merged);
    const bool empty = !merged.empty() && merged[0] == EMPTY;
    TermList taken;
    for (size_t i = 0, given = counted.size(); i < given; ++i) {
        const Counted item = counted[i];
        if (item.tail != EMPTY) continue;
        if (empty) counted.push_back({item.x, EMPTY, 0, 0, NONE});
        if (std::binary_search(merged.begin(), merged.end(), item.x)) {
            counted.push_back({item.x, EMPTY, 1, 1, NONE});
            taken.push_back(item.x);
        }
    }
    sort_unique(taken);
    const auto is_taken = [&](Term x) { return std::binary_search(taken.begin(), taken.end(), x); };
    merged.resize(static_cast<size_t>(std::remove_if(merged.begin(), merged.end(), is_taken) - merged.begin()));
    std::sort(counted.begin(), counted.end());
    for (size_t i = 0, j; i < counted.size(); i = j) {
        Counted span = counted[i];
        for (j = i + 1; j < counted.size(); ++j) {
            const Counted &next = counted[j];
            if (next.tail != span.tail || next.x != span.x || next.low - 1 > span.high) break;
            if (next.low != span.low || next.high != span.high) span.term = NONE;
            span.high = std::max(span.high, next.high);
        }
        merged.push_back(span.term != NONE ? span.term : join(repeated(span.x, span.low, span.high), span.tail));
    }
}

// Unite byte sets before one tail, and ranges of repetitions of one term before one tail.
void Pool::merge_alternatives(TermList &members) {
    spend(2 * static_cast<int64_t>(members.size()));
    SmallVector<Headed, 24> headed;
    CountedList counted;
    TermList merged;
    for (const Term term : members) {
        const bool longer = is(term, Kind::CONCAT);
        const Term first = longer ? head(term) : term, rest = longer ? tail(term) : EMPTY;
        if (is(first, Kind::SET)) {
            headed.push_back({rest, term});
        } else if (is(first, Kind::REPEAT) && !sensitive(first)) {
            counted.push_back({head(first), rest, low_count(first), high_count(first), term});
        } else {
            merged.push_back(term);
        }
    }
    if (counted.empty() && headed.size() < 2) return;
    std::sort(headed.begin(), headed.end());
    for (size_t i = 0, j; i < headed.size(); i = j) {
        for (j = i + 1; j < headed.size() && headed[j].tail == headed[i].tail;) ++j;
        if (j == i + 1) {
            merged.push_back(headed[i].term);
            continue;
        }
        ByteSet set;
        for (size_t k = i; k < j; ++k) set |= set_of(headed[k].tail == EMPTY ? headed[k].term : head(headed[k].term));
        merged.push_back(join(byte_set(set), headed[i].tail));
    }
    merge_counts(counted, merged);
    sort_unique(merged);
    members.clear();
    members.append(merged.data(), merged.size());
}

// --- intersections ---

Term Pool::both(Term a, Term b) {
    const Term two[2] = {a, b};
    return both(two, 2);
}

Term Pool::both(const Term *terms, size_t count) {
    if (count == 1) return terms[0];
    TermList members;
    flatten(Kind::AND, terms, count, members);
    const Term *everything = std::lower_bound(members.begin(), members.end(), all);
    if (everything != members.end() && *everything == all) members.erase(static_cast<size_t>(everything - members.begin()));
    if (!members.empty() && members[0] == NONE) return NONE;
    if (members.size() < 2) return members.empty() ? all : members[0];
    size_t sets = 0;
    bool calm = true, nullable_ = true, calm_nullable = true;
    for (const Term x : members) {
        if (is(x, Kind::NOT) && std::binary_search(members.begin(), members.end(), head(x))) return NONE;
        sets += is(x, Kind::SET);
    }
    if (sets > 1) {
        ByteSet common = ByteSet::full();
        TermList others;
        for (const Term x : members) {
            if (is(x, Kind::SET))
                common &= set_of(x);
            else
                others.push_back(x);
        }
        others.push_back(byte_set(common));
        return both(others.data(), others.size());  // one set now: no deeper
    }
    int64_t low = 0, high = INFINITE;
    for (const Term x : members) {
        calm &= !sensitive(x);
        nullable_ &= null(x);
        calm_nullable &= sensitive(x) || null(x);
        low = std::max(low, shortest(x));
        high = std::min(high, longest(x));
    }
    if (members[0] == EMPTY) {
        if (!calm_nullable) return NONE;
        if (calm) return EMPTY;
    }
    if (low > high) return NONE;
    return intern(Kind::AND, members.data(), members.size(), nullable_, low, high);
}

// --- characters ---

namespace {

struct ByteRange {
    uint8_t first, last;
};
// The spellings of an interval of code points that is a product of ranges of bytes.
struct Piece {
    ByteRange bytes[4];
    int size;
};

int encode(uint32_t code, uint8_t *out) {
    if (code < 0x80) return out[0] = static_cast<uint8_t>(code), 1;
    const int size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = size - 1; i > 0; --i, code >>= 6) out[i] = static_cast<uint8_t>(0x80 | (code & 0x3f));
    out[0] = static_cast<uint8_t>((0xf00 >> size & 0xff) | code);
    return size;
}

using Pieces = SmallVector<Piece, 16>;

// Split an interval of code points, all spelled with equally many bytes, into products. Peels off the lower end:
// the largest aligned block that starts at `first` and stays below `last` is one product, times 64^k.
void split(uint32_t first, uint32_t last, Pieces &out) {
    while (first <= last) {
        uint8_t a[4], b[4];
        int size = encode(first, a), free = 0;
        uint32_t block = 1;  // 64^free code points, whose last `free` bytes are any
        while (free + 1 < size && first % (64 * block) == 0 && last - first >= 64 * block - 1) {
            block *= 64;
            ++free;
        }
        // As many such blocks as share the bytes before the varying one.
        const uint32_t varying = free + 1 < size ? 64 - first / block % 64 : UINT32_MAX / block;
        const uint32_t blocks = std::min<uint32_t>(varying, (last - first + 1) / block);
        const uint32_t end = first + blocks * block - 1;
        encode(end, b);
        Piece piece{};
        piece.size = size;
        for (int i = 0; i < size; ++i) piece.bytes[i] = {a[i], b[i]};
        out.push_back(piece);
        if (end == last) break;
        first = end + 1;
    }
}

}  // namespace

Term Pool::chars(const int32_t *ranges, size_t pairs) {
    SmallVector<CodeRange, 16> sorted;
    for (size_t i = 0; i < pairs; ++i) {
        const int32_t first = std::max(ranges[2 * i], 0), last = std::min(ranges[2 * i + 1], 0x10ffff);
        if (first <= last) sorted.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(last)});
    }
    std::sort(sorted.begin(), sorted.end(), [](CodeRange a, CodeRange b) { return a.first < b.first; });
    static constexpr CodeRange LENGTHS[] = {{0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff},
                                            {0x10000, 0x10ffff}};
    Pieces pieces;
    for (size_t i = 0, j; i < sorted.size(); i = j) {
        CodeRange range = sorted[i];
        for (j = i + 1; j < sorted.size() && sorted[j].first <= range.last + 1; ++j)
            range.last = std::max(range.last, sorted[j].last);
        for (const CodeRange &length : LENGTHS) {
            const uint32_t first = std::max(range.first, length.first), last = std::min(range.last, length.last);
            if (first <= last) split(first, last, pieces);
        }
    }
    spend(static_cast<int64_t>(pairs + pieces.size()));
    // From the last byte to the first: pieces that agree in the bytes before it become one.
    SmallVector<Term, 16> tails;  // of piece i: what follows its bytes that are not yet dealt with
    for (size_t i = 0; i < pieces.size(); ++i) tails.push_back(EMPTY);
    for (int at = 3; at >= 0; --at) {
        size_t kept = 0;
        for (size_t i = 0, j; i < pieces.size(); i = j) {
            TermList options;
            for (j = i; j < pieces.size(); ++j) {
                if (pieces[j].size != pieces[i].size ||
                    std::memcmp(pieces[j].bytes, pieces[i].bytes, static_cast<size_t>(at) * sizeof(ByteRange)) != 0)
                    break;
                if (pieces[j].size <= at) continue;
                ByteSet set;
                set.add_range(pieces[j].bytes[at].first, pieces[j].bytes[at].last);
                options.push_back(join(byte_set(set), tails[j]));
            }
            pieces[kept] = pieces[i];
            tails[kept++] = options.empty() ? tails[i] : alt(options.data(), options.size());
        }
        pieces.resize(kept);
        tails.resize(kept);
    }
    return alt(tails.data(), tails.size());
}

// --- lists of strings ---

Term Pool::one_of(const uint8_t *data, const int64_t *starts, size_t strings) {
    std::vector<std::string_view> sorted;
    sorted.reserve(strings);
    for (size_t i = 0; i < strings; ++i)
        sorted.emplace_back(reinterpret_cast<const char *>(data) + starts[i],
                            static_cast<size_t>(starts[i + 1] - starts[i]));
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    // Of the trie only the path to the latest string is kept: `branches` has the terms that lead away from each node
    // of it, first bytes included, and first_branch[d] is where those of the node at depth d begin.
    std::vector<Term> branches;
    std::vector<size_t> first_branch{0};
    std::string_view previous;
    const auto close = [&](size_t depth) {
        spend(static_cast<int64_t>(first_branch.size() - depth));
        while (first_branch.size() > depth + 1) {
            const size_t from = first_branch.back();
            const Term rest = alt(branches.data() + from, branches.size() - from);
            branches.resize(from);
            first_branch.pop_back();
            const auto byte = static_cast<uint8_t>(previous[first_branch.size() - 1]);
            branches.push_back(join(single(byte), rest));
        }
    };
    for (const std::string_view string : sorted) {
        const auto differ = std::mismatch(previous.begin(), previous.begin() + std::min(previous.size(), string.size()),
                                          string.begin());
        const auto shared = static_cast<size_t>(differ.first - previous.begin());
        close(shared);
        previous = string;
        first_branch.resize(string.size() + 1, branches.size());
        branches.push_back(EMPTY);
    }
    close(0);
    return alt(branches.data(), branches.size());
}

}  // namespace radixrt
