// Derivatives of terms: which byte leads from which language to which.
// Lazy, remembered by term, and iterative: the depth of a term costs memory, never the machine's stack.

#include <algorithm>

#include "term_pool.h"

namespace radixrt {

// Disjoint sets of bytes, each with a tuple of targets (`width` of them).
struct Pool::Blocks {
    SmallVector<ByteSet, 8> sets;
    TermList targets;
    size_t width = 0;

    const Term *tuple(size_t i) const { return targets.data() + i * width; }
};

// --- what is remembered ---

bool Pool::known(const Key &key) const {
    if (!sensitive(key.term)) return nodes_[key.term].arcs >= 0;
    return sensitive_arcs_.find(key) != sensitive_arcs_.end();
}

Arcs Pool::recall(const Key &key) const {
    Span span{nodes_[key.term].arcs, nodes_[key.term].arc_count};
    if (sensitive(key.term)) span = sensitive_arcs_.at(key);
    return {span.count ? chunks_[span.first / CHUNK].get() + span.first % CHUNK : nullptr,
            static_cast<size_t>(span.count)};
}

Arcs Pool::keep(const Key &key, ArcList &arcs) {
    const auto count = static_cast<int32_t>(arcs.size());  // at most 256, as they are disjoint
    if (arc_end_ % CHUNK + count > CHUNK || chunks_.empty() || arc_end_ == static_cast<int32_t>(chunks_.size()) * CHUNK) {
        if (chunks_.size() >= INT32_MAX / CHUNK - 1) throw Refusal{Refusal::MEMORY};
        const auto fresh = static_cast<int32_t>(chunks_.size()) * CHUNK;
        chunks_.emplace_back(new Arc[CHUNK]);
        arc_end_ = fresh;
    }
    const Span span{arc_end_, count};
    if (sensitive(key.term)) sensitive_arcs_.emplace(key, span);
    std::copy(arcs.begin(), arcs.end(), chunks_[span.first / CHUNK].get() + span.first % CHUNK);
    arc_end_ += count;
    if (!sensitive(key.term)) {
        nodes_[key.term].arcs = span.first;
        nodes_[key.term].arc_count = static_cast<uint16_t>(count);
    }
    return recall(key);
}

Arcs Pool::arcs(Term term, uint64_t flags) {
    const Key asked = key(term, flags);
    if (known(asked)) return recall(asked);
    SmallVector<Key, 32> stack;
    stack.push_back(asked);
    Keys parts;
    ArcList arcs;
    while (!stack.empty()) {
        const Key top = stack.back();
        if (known(top)) {
            stack.pop_back();
            continue;
        }
        spend(1);
        parts.clear();
        needed(top, parts);
        const size_t size = stack.size();
        for (const Key &part : parts)
            if (!immediate(part.term) && !known(part)) stack.push_back(part);
        if (stack.size() > size) continue;
        arcs.clear();
        derive(top, arcs);
        keep(top, arcs);
        stack.pop_back();
    }
    return recall(asked);
}

// --- one step of a derivative ---

// The keys whose arcs `derive` will ask for.
void Pool::needed(const Key &key_, Keys &out) {
    const Term term = key_.term;
    switch (kind(term)) {
        case Kind::ALT:
        case Kind::AND:
        case Kind::NOT:
            for (const Term x : children(term)) out.push_back(key(x, key_.flags));
            return;
        case Kind::CLOSED: {
            TermList parts;
            parts.append(words(term), nodes_[term].count);
            const uint64_t flags = flags_of(parts.data() + 1, parts.size() - 1);
            for (const Term x : parts) out.push_back(key(x, flags));
            return;
        }
        case Kind::CONCAT:
        case Kind::REPEAT:
            if (sensitive(head(term))) {
                out.push_back(key(unfold(term, key_.flags), key_.flags));
            } else {
                out.push_back({head(term), 0});
                if (is(term, Kind::CONCAT) && null(head(term))) out.push_back(key(tail(term), key_.flags));
            }
            return;
        default: return;
    }
}

// The arcs of a part: remembered ones, or those of a term that begins with a set of bytes.
void Pool::append_arcs(const Key &key, ArcList &out) const {
    const Term term = key.term;
    if (is(term, Kind::SET)) {
        out.push_back({set_of(term), EMPTY});
    } else if (immediate(term)) {
        out.push_back({set_of(head(term)), tail(term)});
    } else {
        const Arcs known = recall(key);
        out.append(known.data, known.count);
    }
}

void Pool::derive(const Key &key_, ArcList &out) {
    const Term term = key_.term;
    const Kind kind_ = kind(term);
    if (immediate(term)) return append_arcs(key_, out);
    if ((kind_ == Kind::CONCAT || kind_ == Kind::REPEAT) && sensitive(head(term)))
        return append_arcs(key(unfold(term, key_.flags), key_.flags), out);
    switch (kind_) {
        case Kind::CONCAT:
        case Kind::REPEAT: {
            const Term first = head(term);
            const bool both_ = kind_ == Kind::CONCAT && null(first);
            const Term rest = kind_ == Kind::CONCAT ? tail(term) : one_round_less(term);
            append_arcs({first, 0}, out);
            for (Arc &arc : out) arc.rest = concat(arc.rest, rest);
            if (!both_) return join_arcs(out);
            append_arcs(key(rest, key_.flags), out);
            return unite(out);
        }
        case Kind::ALT:
            for (const Term x : children(term)) append_arcs(key(x, key_.flags), out);
            return unite(out);
        case Kind::AND: return derive_both(key_, out);
        case Kind::NOT: {
            append_arcs(key(head(term), key_.flags), out);
            ByteSet others = ByteSet::full();
            for (Arc &arc : out) {
                others &= ~arc.bytes;
                arc.rest = complement(arc.rest);
            }
            out.push_back({others, all});
            return join_arcs(out);
        }
        case Kind::CLOSED: return derive_closed(term, out);
        default: return;
    }
}

// Resolve the first factor of a sensitive term, whose rest is known to reach the end of the closed term.
Term Pool::unfold(Term term, uint64_t flags) {
    const bool longer = is(term, Kind::CONCAT);
    const Term first = longer ? head(term) : term, rest = longer ? tail(term) : EMPTY;
    switch (kind(first)) {
        case Kind::AHEAD: return both(head(first), rest);
        case Kind::BEHIND:
            return (flags >> words(first)[0] & 1) == static_cast<uint64_t>(words(first)[1]) ? rest : NONE;
        case Kind::ALT: {
            TermList options;
            options.append(children(first).data, children(first).count);
            for (Term &x : options) x = concat(x, rest);
            return alt(options.data(), options.size());
        }
        case Kind::REPEAT: {
            const Term round[3] = {head(first), one_round_less(first), rest};
            const bool may_end = low_count(first) == 0;
            return alt(may_end ? rest : NONE, concat(round, 3));
        }
        default: throw Refusal{Refusal::SENSITIVE};
    }
}

// Split blocks by the arcs of one more part, whose targets are put at the end of their tuples. Where the part has no
// arc a block is dropped, or goes on with NONE if `total`.
void Pool::refine(Blocks &blocks, const ArcList &arcs, bool total) {
    ArcList list;
    list.append(arcs.data(), arcs.size());
    if (total) {
        ByteSet others = ByteSet::full();
        for (const Arc &arc : arcs) others &= ~arc.bytes;
        if (others.any()) list.push_back({others, NONE});
    }
    spend(static_cast<int64_t>(blocks.sets.size() * list.size()));
    SmallVector<ByteSet, 8> sets;
    TermList targets;
    for (size_t i = 0; i < blocks.sets.size(); ++i)
        for (const Arc &arc : list) {
            const ByteSet common = blocks.sets[i] & arc.bytes;
            if (!common.any()) continue;
            sets.push_back(common);
            targets.append(blocks.tuple(i), blocks.width);
            targets.push_back(arc.rest);
        }
    blocks.sets.clear();
    blocks.sets.append(sets.data(), sets.size());
    blocks.targets.clear();
    blocks.targets.append(targets.data(), targets.size());
    ++blocks.width;
}

void Pool::derive_both(const Key &key_, ArcList &out) {
    Blocks blocks;
    blocks.sets.push_back(ByteSet::full());
    TermList members;
    members.append(children(key_.term).data, children(key_.term).count);
    spend(static_cast<int64_t>(members.size()));
    ArcList arcs;
    for (const Term x : members) {
        arcs.clear();
        append_arcs(key(x, key_.flags), arcs);
        refine(blocks, arcs, false);
    }
    for (size_t i = 0; i < blocks.sets.size(); ++i)
        out.push_back({blocks.sets[i], both(blocks.tuple(i), blocks.width)});
    join_arcs(out);
}

void Pool::derive_closed(Term term, ArcList &out) {
    TermList parts;
    parts.append(words(term), nodes_[term].count);
    const uint64_t flags = flags_of(parts.data() + 1, parts.size() - 1);
    Blocks blocks;
    blocks.sets.push_back(ByteSet::full());
    ArcList arcs;
    for (size_t i = 0; i < parts.size(); ++i) {
        arcs.clear();
        append_arcs(key(parts[i], flags), arcs);
        refine(blocks, arcs, i > 0);
    }
    for (size_t i = 0; i < blocks.sets.size(); ++i) {
        const Term *tuple = blocks.tuple(i);
        out.push_back({blocks.sets[i], closed(tuple[0], tuple + 1, blocks.width - 1)});
    }
    join_arcs(out);
}

// --- sets of arcs ---

// Drop what leads nowhere and unite arcs that lead to the same place.
void Pool::join_arcs(ArcList &arcs) const {
    size_t kept = 0;
    for (size_t i = 0; i < arcs.size(); ++i)
        if (arcs[i].rest != NONE && arcs[i].bytes.any()) arcs[kept++] = arcs[i];
    arcs.resize(kept);
    if (kept < 2) return;
    std::sort(arcs.begin(), arcs.end(), [](const Arc &a, const Arc &b) { return a.rest < b.rest; });
    size_t last = 0;
    for (size_t i = 1; i < kept; ++i) {
        if (arcs[i].rest == arcs[last].rest)
            arcs[last].bytes |= arcs[i].bytes;
        else
            arcs[++last] = arcs[i];
    }
    arcs.resize(last + 1);
}

// Arcs of a union: split the bytes where arcs overlap, unite the targets.
void Pool::unite(ArcList &arcs) {
    spend(static_cast<int64_t>(arcs.size() / 4));
    std::sort(arcs.begin(), arcs.end(), [](const Arc &a, const Arc &b) { return a.bytes < b.bytes; });
    // Distinct sets, group g being arcs[groups[g]] .. arcs[groups[g + 1]], and the blocks they cut the bytes into.
    SmallVector<size_t, 16> groups;
    SmallVector<ByteSet, 16> blocks;
    ByteSet covered;
    bool disjoint = true;
    for (size_t i = 0; i < arcs.size(); ++i) {
        const ByteSet set = arcs[i].bytes;
        if (i && set == arcs[i - 1].bytes) continue;
        groups.push_back(i);
        if (!set.intersects(covered)) {
            blocks.push_back(set);
        } else {
            disjoint = false;
            spend(static_cast<int64_t>(blocks.size() / 4));
            const size_t size = blocks.size();
            for (size_t b = 0; b < size; ++b) {
                const ByteSet both_ = blocks[b] & set;
                if (!both_.any() || both_ == blocks[b]) continue;
                blocks[b] &= ~set;
                blocks.push_back(both_);
            }
            const ByteSet fresh = set & ~covered;
            if (fresh.any()) blocks.push_back(fresh);
        }
        covered |= set;
    }
    groups.push_back(arcs.size());
    ArcList result;
    TermList targets;
    if (!disjoint) spend(static_cast<int64_t>(blocks.size() * groups.size() / 4));
    for (size_t b = 0; b < blocks.size(); ++b) {
        targets.clear();
        // Where nothing overlaps, block b is group b.
        for (size_t g = disjoint ? b : 0, end = disjoint ? b + 1 : groups.size() - 1; g < end; ++g)
            if (arcs[groups[g]].bytes.intersects(blocks[b]))
                for (size_t i = groups[g]; i < groups[g + 1]; ++i) targets.push_back(arcs[i].rest);
        result.push_back({blocks[b], alt(targets.data(), targets.size())});
    }
    join_arcs(result);
    arcs.clear();
    arcs.append(result.data(), result.size());
}

}  // namespace radixrt
