// Reading and normalising rules; see grammar_rules.h.

#include "grammar_rules.h"

#include <algorithm>

namespace radixrt {

namespace {

struct RepeatKey {
    int32_t words[5];
    explicit RepeatKey(const Rules::Repeat &repeat) {
        words[0] = repeat.symbol;
        std::memcpy(words + 1, &repeat.low, sizeof repeat.low);
        std::memcpy(words + 3, &repeat.high, sizeof repeat.high);
    }
};

// Strongly connected components (R. Tarjan, "Depth-first search and linear graph algorithms", 1972), with its own
// stack. Components are numbered callees first.
class Components {
  public:
    Components(const std::vector<int32_t> &first, const std::vector<Symbol> &targets)
        : first_(first), targets_(targets), index_(first.size() - 1, -1), low_(index_), number(index_) {
        for (Symbol node = 0; node < static_cast<Symbol>(index_.size()); ++node)
            if (index_[node] < 0) visit(node);
    }

    int32_t count = 0;
    bool cyclic = false;

  private:
    void enter(Symbol node) {
        index_[node] = low_[node] = clock_++;
        trail_.push_back(node);
        work_.push_back({node, first_[node]});
    }
    void visit(Symbol start) {
        enter(start);
        while (!work_.empty()) {
            const Symbol node = work_.back().node;
            if (work_.back().next < first_[node + 1]) {
                const Symbol target = targets_[work_.back().next++];
                cyclic |= target == node;
                if (index_[target] < 0)
                    enter(target);
                else if (number[target] < 0)
                    low_[node] = std::min(low_[node], index_[target]);
                continue;
            }
            work_.pop_back();
            if (!work_.empty()) low_[work_.back().node] = std::min(low_[work_.back().node], low_[node]);
            if (low_[node] != index_[node]) continue;
            cyclic |= trail_.back() != node;
            for (; number[node] < 0; trail_.pop_back()) number[trail_.back()] = count;
            ++count;
        }
    }

    struct Step {
        Symbol node;
        int32_t next;
    };
    const std::vector<int32_t> &first_;
    const std::vector<Symbol> &targets_;
    std::vector<int32_t> index_, low_;
    std::vector<Symbol> trail_;
    std::vector<Step> work_;
    int32_t clock_ = 0;

  public:
    std::vector<int32_t> number;  // by node
};

}  // namespace

Rules::Outcome Rules::read(const Pool &pool, const int32_t *flat, size_t words, int32_t rules,
                           const int64_t *repeats, size_t repeat_count) {
    size_t at = 0;
    const auto known = [&](Symbol s) { return is_terminal(s) ? pool.knows(term_of(s)) : s < rules; };
    for (int32_t rule = 0; rule < rules; ++rule) {
        if (at >= words || flat[at] < 0) return MALFORMED;
        for (int32_t left = flat[at++]; left > 0; --left) {
            if (at >= words || flat[at] < 0 || static_cast<size_t>(flat[at]) > words - at - 1) return MALFORMED;
            const int32_t length = flat[at++];
            for (int32_t i = 0; i < length; ++i)
                if (!known(flat[at + i])) return MALFORMED;
            symbols_.insert(symbols_.end(), flat + at, flat + at + length);
            begin_.push_back(static_cast<uint32_t>(symbols_.size()));
            at += length;
        }
        add_rule({NOTHING, 0, 0});
    }
    if (at != words) return MALFORMED;
    for (size_t i = 0; i < repeat_count; ++i, repeats += 4) {
        const int64_t rule = repeats[0], symbol = repeats[1], low = repeats[2], high = repeats[3];
        if (rule < 0 || rule >= rules || symbol <= NOTHING || symbol >= rules || !known(static_cast<Symbol>(symbol)))
            return MALFORMED;
        if (low < 0 || low >= INFINITE || high < low || high > INFINITE) return MALFORMED;
        repeats_[rule] = {static_cast<Symbol>(symbol), low, high};
    }
    return FINE;
}

void Rules::add_rule(const Repeat &repeat) {
    repeats_.push_back(repeat);
    first_.push_back(static_cast<int32_t>(begin_.size()) - 1);
    ranks_.push_back(0);
}

// The alternatives of a rule as far as emptiness is concerned: a repetition is one round, or nothing.
template <class Visit>
void Rules::each_alternative(Symbol rule, Visit visit) const {
    const Repeat &repeat = repeats_[rule];
    if (repeat.symbol != NOTHING) {
        visit(Alternative{&repeat.symbol, repeat.low == 0 ? size_t{0} : size_t{1}});
        return;
    }
    for (int32_t i = 0; i < alternatives(rule); ++i) visit(alternative(rule, i));
}

// The least set of rules that have an alternative of terminals that `lives` and of rules in the set.
template <class Lives>
Rules::Flags Rules::least(Pool &pool, Lives lives) const {
    struct Need {
        Symbol rule;
        int32_t missing;
    };
    struct Wait {
        int32_t need, next;
    };
    std::vector<Need> needs;
    std::vector<Wait> waits;
    std::vector<int32_t> waiting(size(), -1);
    std::vector<Symbol> ready;
    for (Symbol rule = 0; rule < size(); ++rule)
        each_alternative(rule, [&](Alternative parts) {
            pool.spend(static_cast<int64_t>(parts.count) + 1);
            for (const Symbol part : parts)
                if (is_terminal(part) && !lives(term_of(part))) return;
            Need need{rule, 0};
            for (const Symbol part : parts)
                if (!is_terminal(part)) {
                    waits.push_back({static_cast<int32_t>(needs.size()), waiting[part]});
                    waiting[part] = static_cast<int32_t>(waits.size()) - 1;
                    ++need.missing;
                }
            if (!need.missing) ready.push_back(rule);
            needs.push_back(need);
        });
    Flags found(size(), 0);
    while (!ready.empty()) {
        const Symbol rule = ready.back();
        ready.pop_back();
        if (found[rule]) continue;
        found[rule] = 1;
        for (int32_t w = waiting[rule]; w >= 0; w = waits[w].next)
            if (--needs[waits[w].need].missing == 0) ready.push_back(needs[waits[w].need].rule);
    }
    return found;
}

Rules::Flags Rules::nullable(Pool &pool) const {
    return least(pool, [&](Term term) { return pool.null(term); });
}

Rules::Outcome Rules::normalise(Pool &pool, Symbol root) {
    if (is_terminal(root)) {
        if (!pool.knows(term_of(root))) return MALFORMED;
        if (pool.is_empty(term_of(root))) return UNSATISFIABLE;
        *this = Rules();
        root_ = root;
        return FINE;
    }
    if (root >= size()) return MALFORMED;
    const Flags productive = least(pool, [&](Term term) { return !pool.is_empty(term); });
    if (!productive[root]) return UNSATISFIABLE;
    Rules chosen = *this;
    chosen.select(pool, root, productive);
    if (!chosen.rank_all(pool)) return LEFT_RECURSIVE;
    chosen.index_repeats();
    *this = std::move(chosen);
    return FINE;
}

// Keep what `root` reaches through alternatives all of whose parts produce something; rules are renumbered.
void Rules::select(Pool &pool, Symbol root, const Flags &productive) {
    Rules kept;
    std::vector<Symbol> names(size(), NOTHING), queue;
    const auto lives = [&](Symbol part) {
        return is_terminal(part) ? !pool.is_empty(term_of(part)) : productive[part] != 0;
    };
    const auto name = [&](Symbol part) {
        if (is_terminal(part)) return part;
        if (names[part] == NOTHING) {
            names[part] = static_cast<Symbol>(queue.size());
            queue.push_back(part);
        }
        return names[part];
    };
    kept.root_ = name(root);
    for (size_t i = 0; i < queue.size(); ++i) {
        const Symbol rule = queue[i];
        const Repeat repeat = repeats_[rule];
        pool.spend(1);
        if (repeat.symbol != NOTHING && lives(repeat.symbol)) {
            kept.add_rule({name(repeat.symbol), repeat.low, repeat.high});
            continue;
        }
        // A repetition of what produces nothing is the empty string alone: it is here, so it may be empty.
        if (repeat.symbol != NOTHING) kept.begin_.push_back(static_cast<uint32_t>(kept.symbols_.size()));
        for (int32_t k = 0; k < alternatives(rule); ++k) {
            const Alternative parts = alternative(rule, k);
            if (!std::all_of(parts.begin(), parts.end(), lives)) continue;
            pool.spend(static_cast<int64_t>(parts.count));
            for (const Symbol part : parts) kept.symbols_.push_back(name(part));
            kept.begin_.push_back(static_cast<uint32_t>(kept.symbols_.size()));
        }
        kept.add_rule({NOTHING, 0, 0});
    }
    *this = std::move(kept);
}

// Rank the rules by their left corners, looking through what may be empty. False: some rule reaches itself.
bool Rules::rank_all(Pool &pool) {
    const Flags null = nullable(pool);
    const auto empty = [&](Symbol part) { return is_terminal(part) ? pool.null(term_of(part)) : null[part] != 0; };
    std::vector<int32_t> first{0};
    std::vector<Symbol> targets;
    for (Symbol rule = 0; rule < size(); ++rule) {
        const Repeat &repeat = repeats_[rule];
        if (repeat.symbol != NOTHING) {
            if (!is_terminal(repeat.symbol)) targets.push_back(repeat.symbol);
            if (empty(repeat.symbol)) targets.push_back(rule);
        } else {
            for (int32_t i = 0; i < alternatives(rule); ++i)
                for (const Symbol part : alternative(rule, i)) {
                    pool.spend(1);
                    if (!is_terminal(part)) targets.push_back(part);
                    if (!empty(part)) break;
                }
        }
        first.push_back(static_cast<int32_t>(targets.size()));
    }
    const Components components(first, targets);
    if (components.cyclic) return false;
    for (Symbol rule = 0; rule < size(); ++rule) ranks_[rule] = -components.number[rule];
    return true;
}

void Rules::index_repeats() {
    for (Symbol rule = 0; rule < size(); ++rule) {
        if (!is_repeat(rule)) continue;
        const RepeatKey key(repeats_[rule]);
        const uint64_t hash = Interner::hash(key.words, 5);
        if (repeat_keys_.find(key.words, 5, hash) >= 0) continue;
        repeat_keys_.add(key.words, 5, hash);
        repeat_rules_.push_back(rule);
    }
}

Symbol Rules::after_one(Pool &pool, Symbol rule) {
    const Repeat whole = repeats_[rule];
    if (whole.high <= 1) return NOTHING;
    if (whole.low == 0 && whole.high == INFINITE) return rule;
    const Repeat rest{whole.symbol, std::max<int64_t>(whole.low - 1, 0),
                      whole.high == INFINITE ? INFINITE : whole.high - 1};
    const RepeatKey key(rest);
    const uint64_t hash = Interner::hash(key.words, 5);
    const int32_t known = repeat_keys_.find(key.words, 5, hash);
    if (known >= 0) return repeat_rules_[known];
    pool.spend(1);
    const Symbol made = size();
    repeat_keys_.add(key.words, 5, hash);
    repeat_rules_.push_back(made);
    add_rule(rest);
    ranks_[made] = ranks_[rule];
    return made;
}

void Rules::truncate(int32_t count) {
    repeats_.resize(count);
    first_.resize(count + 1);
    ranks_.resize(count);
    repeat_keys_ = Interner();
    repeat_rules_.clear();
    index_repeats();
}

std::vector<Term> Rules::terminals() const {
    std::vector<Term> found;
    if (is_terminal(root_)) found.push_back(term_of(root_));
    for (const Symbol symbol : symbols_)
        if (is_terminal(symbol)) found.push_back(term_of(symbol));
    for (const Repeat &repeat : repeats_)
        if (repeat.symbol != NOTHING && is_terminal(repeat.symbol)) found.push_back(term_of(repeat.symbol));
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

size_t Rules::nbytes() const {
    return repeats_.capacity() * sizeof(Repeat) + 4 * (first_.capacity() + begin_.capacity() + symbols_.capacity()) +
           4 * (ranks_.capacity() + repeat_rules_.capacity()) + repeat_keys_.nbytes();
}

}  // namespace radixrt
