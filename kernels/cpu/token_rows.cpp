// Making mask rows; see token_rows.h.

#include "token_rows.h"

#include <algorithm>

namespace radixrt {

namespace {

constexpr int32_t WIDE = 32;  // from so many possible next bytes on, the row of a terminal is worth sharing
constexpr size_t MANY = 8;    // beyond so many open terminals, one walk for all of them is cheaper
constexpr int64_t NODES_PER_FUEL = 16;

}  // namespace

// --- shared rows ---

int64_t TerminalRow::nbytes() const {
    size_t bytes = sizeof *this + 200 + 4 * bits.size();
    for (const Exit &exit : exits)
        bytes += sizeof exit + exit.path.size() + 4 * (exit.nodes[0].size() + exit.nodes[1].size());
    return static_cast<int64_t>(bytes);
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

void TokenRows::compose(const TokenTries &tries, SharedRows &shared, int32_t state, uint32_t *row) {
    const View<Part> parts = machine_.parts(state);
    parts_.assign(parts.begin(), parts.end());
    const auto is_wide = [&](Part part) { return machine_.pool().first_bytes(part.term) >= WIDE; };
    if (parts_.size() > MANY) {
        walk_apart(tries, state, row);
        return;
    }
    rest_.clear();
    bool apart = false;
    for (const Part part : parts_) {
        if (!is_wide(part)) {
            rest_.push_back(part);
            continue;
        }
        const auto terminal = terminal_row(tries, shared, part);
        if (terminal->leaves_everywhere) {
            rest_.push_back(part);
            apart = true;
            continue;
        }
        for (int32_t i = 0; i < tries.words; ++i) row[i] |= terminal->bits[i];
        if (terminal->exits.empty()) continue;
        const int32_t alone = parts_.size() == 1 ? state : machine_.state_of(&part, 1, false);
        walk_below_exits(tries, *terminal, alone, row);
    }
    if (rest_.empty()) return;
    const int32_t left = rest_.size() == parts_.size() ? state : machine_.state_of(rest_.data(), rest_.size(), false);
    if (apart)
        walk_apart(tries, left, row);
    else
        walk(tries.all, -1, left, row);
}

void TokenRows::walk_below_exits(const TokenTries &tries, const TerminalRow &row, int32_t alone, uint32_t *bits) {
    for (const TerminalRow::Exit &exit : row.exits) {
        const int32_t after = machine_.run(alone, exit.path.data(), exit.path.size());
        if (after < 0) continue;
        for (const int32_t node : exit.nodes[0]) walk(tries.plain, node, after, bits);
        for (const int32_t node : exit.nodes[1]) walk(tries.others, node, after, bits);
    }
}

std::shared_ptr<const TerminalRow> TokenRows::terminal_row(const TokenTries &tries, SharedRows &shared, Part part) {
    const bool last = part.stacks == machine_.bottom();
    Term term = machine_.pool().clamped(part.term, tries.all.height);
    if (last) term = plain_.same_prefixes(term);
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
    Exits exits;
    if (plain_.always_leaves(term))
        add_plain(tries, state, bits);
    else
        walk_to_exits(tries.plain, state, bits, exits);
    exits.trie = 1;
    walk_to_exits(tries.others, state, bits, exits);
    made->leaves_everywhere = 4 * exits.below > tries.all.count();
    if (!made->leaves_everywhere) made->exits = std::move(exits.groups);
    return made;
}

void TokenRows::Exits::add(int32_t state, int32_t node, int32_t nodes_below, const uint8_t *path, size_t length) {
    const size_t at = std::find(states.begin(), states.end(), state) - states.begin();
    if (at == states.size()) {
        states.push_back(state);
        groups.emplace_back();
        groups.back().path.assign(path, path + length);
    }
    groups[at].nodes[trie].push_back(node);
    below += nodes_below;
}

// --- walks ---

void TokenRows::begin_walk(const Trie &trie) {
    const size_t most = static_cast<size_t>(trie.height) + 1;
    if (rows_.size() < most) {
        rows_.resize(most);
        path_.resize(most);
    }
}

void TokenRows::walk(const Trie &trie, int32_t root, int32_t state, uint32_t *row) {
    begin_walk(trie);
    const uint8_t *class_of = machine_.class_of();
    const TrieNode *nodes = trie.nodes.data();
    const int32_t **rows = rows_.data();
    rows[root < 0 ? 0 : nodes[root].depth + 1] = machine_.row(state);
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

// The same from the root, not going below nodes where the state is accepting: those are the exits.
void TokenRows::walk_to_exits(const Trie &trie, int32_t state, uint32_t *row, Exits &exits) {
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
        path_[here.depth] = here.byte;
        add_tokens(trie, here.tokens, nodes[node + 1].tokens, row);
        if (machine_.accepting(target)) {
            if (here.end > node + 1)
                exits.add(target, node, here.end - node - 1, path_.data(), static_cast<size_t>(here.depth) + 1);
            node = here.end;
            continue;
        }
        ++node;
        if (node < here.end) rows_[here.depth + 1] = machine_.row(target);
    }
    machine_.pool().spend(visited / NODES_PER_FUEL);
}

// A whole row in two walks, so that plain tokens can be taken together.
void TokenRows::walk_apart(const TokenTries &tries, int32_t state, uint32_t *row) {
    add_plain(tries, state, row);
    walk(tries.others, -1, state, row);
}

int32_t TokenRows::reach(int32_t state) {
    if (static_cast<size_t>(state) >= reach_.size()) reach_.resize(machine_.size(), -1);
    if (reach_[state] >= 0) return reach_[state];
    int32_t most = 0;
    const size_t count = machine_.parts(state).size();
    for (size_t i = 0; i < count && most < PlainReach::ENDLESS; ++i)
        most = std::max(most, plain_.of(machine_.parts(state)[i].term));
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
        walk(trie, -1, state, row);
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
