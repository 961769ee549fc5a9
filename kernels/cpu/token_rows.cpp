// Making mask rows; see token_rows.h.

#include "token_rows.h"

#include <algorithm>

namespace radixrt {

namespace {

constexpr int32_t WIDE = 32;  // from so many possible next bytes on, the row of a terminal is worth sharing
constexpr int64_t LONG = 32;  // bytes of a terminal that can end at any time, whose every state is not to be had anew
constexpr size_t FACTORS = 16;  // of a concatenation that are looked at
constexpr size_t MANY_EXITS = 16;  // as a part of the trie
constexpr size_t MANY = 8;    // beyond so many open terminals, one walk for all of them is cheaper
constexpr int64_t NODES_PER_FUEL = 16;

}  // namespace

// --- shared rows ---

int64_t TerminalRow::nbytes() const {
    return static_cast<int64_t>(sizeof *this + 200 + 4 * (bits.size() + plain_exits.size() + other_exits.size()));
}

std::shared_ptr<const TerminalRow> SharedRows::get(const Key &key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = by_key_.find(key);
    if (known == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, known->second);
    return known->second->row;
}

void SharedRows::put(const Key &key, std::shared_ptr<const TerminalRow> row) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (by_key_.count(key)) return;
    nbytes_ += row->nbytes();
    entries_.push_front({key, std::move(row)});
    by_key_[key] = entries_.begin();
    while (nbytes_ > max_bytes_ && entries_.size() > 1) {
        nbytes_ -= entries_.back().row->nbytes();
        by_key_.erase(entries_.back().key);
        entries_.pop_back();
    }
}

int64_t SharedRows::nbytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return nbytes_;
}

int64_t SharedRows::count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(entries_.size());
}

// --- one row ---

// Something long that can end at any time, like blanks: each of its many states would be had anew at each place.
bool TokenRows::is_run(Term term) {
    return machine_.pool().null(term) && machine_.pool().longest(term) >= LONG;
}

TokenRows::Split TokenRows::split(Term term) {
    if (static_cast<size_t>(term) >= splits_.size()) splits_.resize(machine_.pool().size(), {-1, EMPTY});
    if (splits_[term].head < 0) {
        const Split found = find_split(term);
        splits_[term] = found;
    }
    return splits_[term];
}

// The head ends with the first run, or, where much is possible, with the first part that no plain text gets beyond.
TokenRows::Split TokenRows::find_split(Term term) {
    Pool &pool = machine_.pool();
    const bool wide = pool.first_bytes(term) >= WIDE;
    std::vector<Term> factors;
    for (Term rest = term; factors.size() < FACTORS; rest = pool.children(rest)[1]) {
        const bool more = pool.kind(rest) == Kind::CONCAT;
        const Term factor = more ? pool.children(rest)[0] : rest;
        factors.push_back(factor);
        if (wide ? shapes_.always_leaves(factor) : is_run(factor)) {
            if (!more) return {term, EMPTY};
            const Term tail = pool.children(rest)[1];
            return {pool.concat(factors.data(), factors.size()), tail};
        }
        if (!more) break;
    }
    return {wide ? term : NONE, EMPTY};
}

void TokenRows::compose(const TokenTries &tries, SharedRows &shared, int32_t state, uint32_t *row) {
    const View<Part> parts = machine_.parts(state);
    parts_.assign(parts.begin(), parts.end());
    if (parts_.size() > MANY) {
        walk_apart(tries, state, row);
        return;
    }
    rest_.clear();
    bool apart = false, as_it_is = true;
    for (size_t p = 0; p < parts_.size(); ++p) {
        const Part part = parts_[p];
        const Split parted = split(part.term);
        const bool last = parted.tail == EMPTY && part.stacks == machine_.bottom();
        const auto terminal = parted.head == NONE ? nullptr : terminal_row(tries, shared, parted.head, last);
        if (!terminal || terminal->leaves_everywhere) {
            rest_.push_back(part);
            apart |= terminal != nullptr;
            continue;
        }
        as_it_is = false;
        for (int32_t i = 0; i < tries.words; ++i) row[i] |= terminal->bits[i];
        // What follows an empty head is open too; behind a whole terminal the state has it already.
        if (parted.tail != EMPTY && machine_.pool().null(parted.head)) parts_.push_back({parted.tail, part.stacks});
        if (terminal->plain_exits.empty() && terminal->other_exits.empty()) continue;
        const int32_t after = machine_.after({parted.tail, part.stacks});
        for (const int32_t node : terminal->plain_exits) walk(tries.plain, node, after, row);
        for (const int32_t node : terminal->other_exits) walk(tries.others, node, after, row);
    }
    if (rest_.empty()) return;
    const int32_t left = as_it_is ? state : machine_.state_of_any(rest_);
    if (apart)
        walk_apart(tries, left, row);
    else
        walk_all(tries.all, left, row);
}

std::shared_ptr<const TerminalRow> TokenRows::terminal_row(const TokenTries &tries, SharedRows &shared, Term term,
                                                           bool last) {
    term = machine_.pool().clamped(shapes_.loosened(term, tries.all.height), tries.all.height);
    if (last) term = shapes_.same_prefixes(term);
    const SharedRows::Key key{machine_.pool().fingerprint(term), last};
    auto known = shared.get(key);
    if (!known) {
        known = make_terminal_row(tries, term, last);
        shared.put(key, known);
    }
    return known;
}

std::shared_ptr<const TerminalRow> TokenRows::make_terminal_row(const TokenTries &tries, Term term, bool last) {
    auto made = std::make_shared<TerminalRow>();
    made->bits.assign(tries.words, 0);
    uint32_t *bits = made->bits.data();
    const Part part{term, machine_.bottom()};
    const int32_t state = machine_.state_of(&part, 1, machine_.pool().null(term));
    if (last) {
        walk_apart(tries, state, bits);
        return made;
    }
    if (shapes_.always_leaves(term))
        add_plain(tries, state, bits);
    else
        walk_to_exits(tries.plain, state, bits, made->plain_exits);
    walk_to_exits(tries.others, state, bits, made->other_exits);
    const size_t exits = made->plain_exits.size() + made->other_exits.size();
    made->leaves_everywhere = MANY_EXITS * exits > static_cast<size_t>(tries.all.count());
    return made;
}

// --- walks ---

void TokenRows::begin_walk(const Trie &trie) {
    const size_t most = static_cast<size_t>(trie.height) + 1;
    if (rows_.size() < most) rows_.resize(most);
}

void TokenRows::walk(const Trie &trie, int32_t root, int32_t state, uint32_t *row) {
    if (root < 0) return walk_all(trie, state, row);
    begin_walk(trie);
    const uint8_t *class_of = machine_.class_of();
    const TrieNode *nodes = trie.nodes.data();
    const int32_t **rows = rows_.data();
    rows[nodes[root].depth + 1] = machine_.row(state);
    const int32_t end = trie.end(root);
    int64_t visited = 0;
    for (int32_t node = root + 1; node < end; ++visited) {
        const TrieNode &here = nodes[node];
        const int32_t target = rows[here.depth][class_of[here.byte]];
        if (target < 0) {
            node = here.end;
            continue;
        }
        ++node;
        add_tokens(trie, here.tokens, nodes[node].tokens, row);
        if (node < here.end) rows[here.depth + 1] = machine_.row(target);
    }
    machine_.pool().spend(visited / NODES_PER_FUEL);
}

void TokenRows::walk_all(const Trie &trie, int32_t state, uint32_t *row) {
    const int32_t *targets = machine_.row(state);
    for (const TrieRoot root : trie.roots) {
        const int32_t target = targets[machine_.class_of()[root.byte]];
        if (target < 0) continue;
        add_tokens(trie, trie.nodes[root.node].tokens, trie.nodes[root.node + 1].tokens, row);
        if (root.node + 1 < trie.end(root.node)) walk(trie, root.node, target, row);
    }
    machine_.pool().spend(static_cast<int64_t>(trie.roots.size()) / NODES_PER_FUEL);
}

// The same from the root, listing the inner nodes where the state is accepting.
void TokenRows::walk_to_exits(const Trie &trie, int32_t state, uint32_t *row, std::vector<int32_t> &exits) {
    begin_walk(trie);
    const uint8_t *class_of = machine_.class_of();
    const TrieNode *nodes = trie.nodes.data();
    rows_[0] = machine_.row(state);
    int64_t visited = 0;
    for (int32_t node = 0; node < trie.count(); ++visited) {
        const TrieNode &here = nodes[node];
        const int32_t target = rows_[here.depth][class_of[here.byte]];
        if (target < 0) {
            node = here.end;
            continue;
        }
        add_tokens(trie, here.tokens, nodes[node + 1].tokens, row);
        if (node + 1 < here.end) {
            if (machine_.accepting(target)) exits.push_back(node);
            rows_[here.depth + 1] = machine_.row(target);
        }
        ++node;
    }
    machine_.pool().spend(visited / NODES_PER_FUEL);
}

// A whole row in two walks, so that plain tokens can be taken together.
void TokenRows::walk_apart(const TokenTries &tries, int32_t state, uint32_t *row) {
    add_plain(tries, state, row);
    walk_all(tries.others, state, row);
}

int32_t TokenRows::reach(int32_t state) {
    if (static_cast<size_t>(state) >= reach_.size()) reach_.resize(machine_.size(), -1);
    if (reach_[state] >= 0) return reach_[state];
    int32_t most = 0;
    const size_t count = machine_.parts(state).size();
    for (size_t i = 0; i < count && most < TermShapes::ENDLESS; ++i)
        most = std::max(most, shapes_.of(machine_.parts(state)[i].term));
    return reach_[state] = most;
}

// The plain tokens that `state` allows, it being clear that no terminal is complete on the way or nobody asks.
void TokenRows::add_plain(const TokenTries &tries, int32_t state, uint32_t *row) {
    const Trie &trie = tries.plain;
    if (reach(state) >= trie.height) {
        for (int32_t i = 0; i < tries.words; ++i) row[i] |= tries.plain_tokens[i];
    } else if (is_mostly_plain(trie, state)) {
        scratch_ = tries.plain_tokens;
        drop_plain(trie, state, scratch_.data());
        for (int32_t i = 0; i < tries.words; ++i) row[i] |= scratch_[i];
    } else {
        walk_all(trie, state, row);
    }
}

// Whether most plain tokens begin with a byte after which any plain text may follow.
bool TokenRows::is_mostly_plain(const Trie &trie, int32_t state) {
    const int32_t *row = machine_.row(state);
    int64_t tokens = 0;
    for (int32_t node = 0; node < trie.count(); node = trie.nodes[node].end) {
        const TrieNode &here = trie.nodes[node];
        const int32_t target = row[machine_.class_of()[here.byte]];
        if (target >= 0 && reach(target) > 0) tokens += trie.nodes[here.end].tokens - here.tokens;
    }
    machine_.pool().spend(1);
    return 2 * tokens > static_cast<int64_t>(trie.order.size());
}

// Take out the plain tokens that `state` does not allow; look only where it depends on the token.
void TokenRows::drop_plain(const Trie &trie, int32_t state, uint32_t *row) {
    begin_walk(trie);
    const uint8_t *class_of = machine_.class_of();
    rows_[0] = machine_.row(state);
    int64_t visited = 0;
    for (int32_t node = 0; node < trie.count(); ++visited) {
        const TrieNode &here = trie.nodes[node];
        const int32_t target = rows_[here.depth][class_of[here.byte]];
        if (target < 0) drop_tokens(trie, here.tokens, trie.nodes[here.end].tokens, row);
        if (target < 0 || reach(target) >= here.height) {
            node = here.end;
            continue;
        }
        rows_[here.depth + 1] = machine_.row(target);
        ++node;
    }
    machine_.pool().spend(visited / NODES_PER_FUEL);
}

}  // namespace radixrt
