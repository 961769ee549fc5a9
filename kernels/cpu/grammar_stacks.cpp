// Closures of items and interned sets of stacks; see grammar_stacks.h.

#include "grammar_stacks.h"

#include <algorithm>

namespace radixrt {

void PairSet::clear() {
    count_ = 0;
    if (++round_ == 0) {
        std::fill(rounds_.begin(), rounds_.end(), 0);
        round_ = 1;
    }
}

bool PairSet::add(int32_t a, int32_t b) {
    if (2 * (count_ + 1) > keys_.size()) {
        std::vector<uint64_t> keys(std::max<size_t>(64, 2 * keys_.size()), 0);
        std::vector<uint32_t> rounds(keys.size(), 0);
        keys.swap(keys_);
        rounds.swap(rounds_);
        count_ = 0;
        for (size_t i = 0; i < keys.size(); ++i)
            if (rounds[i] == round_) add(static_cast<int32_t>(keys[i] >> 32), static_cast<int32_t>(keys[i]));
    }
    const int32_t words[2] = {a, b};
    const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
    const size_t mask = keys_.size() - 1;
    for (size_t i = Interner::hash(words, 2) & mask;; i = (i + 1) & mask) {
        if (rounds_[i] != round_) {
            rounds_[i] = round_;
            keys_[i] = key;
            ++count_;
            return true;
        }
        if (keys_[i] == key) return false;
    }
}

Stacks::Stacks(Pool &pool, Rules &rules) : pool_(pool), rules_(rules) {
    const int32_t end[2] = {0, 0};
    items_.add(end, 2, Interner::hash(end, 2));  // END, whose symbol is never read
    begin();
    bottom = make(true, nullptr, 0);
}

int32_t Stacks::item(Symbol symbol, int32_t following) {
    // Shifted, so that no item looks like END.
    const int32_t words[2] = {symbol, following + 1};
    const uint64_t hash = Interner::hash(words, 2);
    const int32_t known = items_.find(words, 2, hash);
    if (known >= 0) return known;
    pool_.spend(1);
    return items_.add(words, 2, hash);
}

int32_t Stacks::make(bool ends, const Frame *frames, size_t count) {
    words_.resize(1 + 2 * count);
    words_[0] = ends;
    if (count) std::memcpy(words_.data() + 1, frames, count * sizeof *frames);
    const uint64_t hash = Interner::hash(words_.data(), words_.size());
    const int32_t known = sets_.find(words_.data(), words_.size(), hash);
    if (known >= 0) return known;
    pool_.spend(1 + static_cast<int64_t>(count));
    const int32_t made = sets_.add(words_.data(), words_.size(), hash);
    follow_.resize(made + 1);
    return made;
}

// Stacks on which `rest` comes first. A star on top of the same star is that star once.
int32_t Stacks::push(int32_t rest, int32_t stacks) {
    if (rest == END) return stacks;
    const int32_t symbol = items_[rest].data[0], following = items_[rest].data[1] - 1;
    if (following == END && is_star(symbol) && !ends(stacks)) {
        const View<Frame> below = frames(stacks);
        if (below.size() && std::all_of(below.begin(), below.end(), [&](Frame f) { return f.item == rest; }))
            return stacks;
    }
    const Frame frame{rest, stacks};
    return make(false, &frame, 1);
}

// Whether a rule R is visibly some X*: it may be empty, and its other alternatives end in R.
bool Stacks::is_star(Symbol rule) {
    if (is_terminal(rule)) return false;
    if (static_cast<size_t>(rule) >= stars_.size()) stars_.resize(rules_.size(), -1);
    if (stars_[rule] >= 0) return stars_[rule] != 0;
    bool empty = false, all = true;
    if (rules_.is_repeat(rule)) {
        empty = all = rules_.repeat(rule).low == 0 && rules_.repeat(rule).high == INFINITE;
    } else {
        for (int32_t i = 0; i < rules_.alternatives(rule); ++i) {
            const Rules::Alternative parts = rules_.alternative(rule, i);
            if (!parts.count)
                empty = true;
            else
                all = all && parts.data[parts.count - 1] == rule;
        }
    }
    stars_[rule] = empty && all;
    return empty && all;
}

int32_t Stacks::unite(int32_t *sets, size_t count) {
    std::sort(sets, sets + count);
    count = std::unique(sets, sets + count) - sets;
    if (count == 1) return sets[0];
    bool may_end = false;
    scratch_frames_.clear();
    for (size_t i = 0; i < count; ++i) {
        const View<Frame> more = frames(sets[i]);
        pool_.spend(static_cast<int64_t>(more.size()));
        may_end |= ends(sets[i]);
        scratch_frames_.insert(scratch_frames_.end(), more.begin(), more.end());
    }
    std::sort(scratch_frames_.begin(), scratch_frames_.end());
    scratch_frames_.erase(std::unique(scratch_frames_.begin(), scratch_frames_.end()), scratch_frames_.end());
    return make(may_end, scratch_frames_.data(), scratch_frames_.size());
}

void Stacks::merge(std::vector<Part> &parts) {
    std::sort(parts.begin(), parts.end());
    size_t kept = 0;
    for (size_t i = 0, next; i < parts.size(); i = next) {
        const Term term = parts[i].term;
        united_.clear();
        for (next = i; next < parts.size() && parts[next].term == term; ++next)
            united_.push_back(parts[next].stacks);
        parts[kept++] = {term, united_.size() == 1 ? united_[0] : unite(united_.data(), united_.size())};
    }
    parts.resize(kept);
}

bool Stacks::after_terminal(int32_t stacks, View<Part> &parts) {
    if (follow_[stacks].first < 0) {
        begin();
        accepting_ = ends(stacks);
        for (size_t i = 0; i < frames(stacks).size(); ++i) {
            const Frame frame = frames(stacks)[i];  // entering it may move the frames
            enter(frame.item, frame.below);
        }
        run();
        merge(found_);
        follow_[stacks] = {static_cast<int64_t>(follow_parts_.size()), static_cast<int32_t>(found_.size()),
                           accepting_};
        follow_parts_.insert(follow_parts_.end(), found_.begin(), found_.end());
    }
    const Follow &known = follow_[stacks];
    parts = {follow_parts_.data() + known.first, static_cast<size_t>(known.count)};
    return known.accepting;
}

bool Stacks::close(int32_t item, int32_t stacks, std::vector<Part> &parts) {
    begin();
    enter(item, stacks);
    run();
    merge(found_);
    parts = found_;
    return accepting_;
}

// --- one closure: rules are replaced in the order of their left corners, so that each is handled once with all its
// callers; a caller found late (behind a nullable rule) is handled by itself ---

void Stacks::begin() {
    entered_.clear();
    open_.clear();
    found_.clear();
    todo_.clear();
    accepting_ = false;
    while (!turns_.empty()) turns_.pop();  // a closure that ran out of fuel leaves some
    for (const Symbol rule : called_) call_of_[rule] = -1;
    called_.clear();
    used_calls_ = 0;
}

// Read `item` on top of `stacks`; follow what may be empty.
void Stacks::enter(int32_t item, int32_t stacks) {
    todo_.push_back({item, stacks});
    while (!todo_.empty()) {
        const Frame top = todo_.back();
        todo_.pop_back();
        pool_.spend(1);
        if (!entered_.add(top.item, top.below)) continue;
        if (top.item == END) {
            accepting_ |= ends(top.below);
            const View<Frame> below = frames(top.below);
            todo_.insert(todo_.end(), below.begin(), below.end());
            continue;
        }
        const Symbol symbol = items_[top.item].data[0];
        const int32_t rest = items_[top.item].data[1] - 1;
        if (!is_terminal(symbol)) {
            call(symbol, rest, top.below);
            continue;
        }
        const Term term = term_of(symbol);
        if (term != EMPTY) {
            const int32_t below = push(rest, top.below);
            if (open_.add(term, below)) found_.push_back({term, below});
        }
        if (pool_.null(term)) todo_.push_back({rest, top.below});
    }
}

Stacks::Call &Stacks::call_of(Symbol rule) {
    if (static_cast<size_t>(rule) >= call_of_.size()) call_of_.resize(rules_.size(), -1);
    if (call_of_[rule] < 0) {
        if (used_calls_ == calls_.size()) calls_.emplace_back();
        Call &fresh = calls_[used_calls_];
        fresh.waiting.clear();
        fresh.done.clear();
        fresh.ends = fresh.done_ends = fresh.begun = false;
        call_of_[rule] = static_cast<int32_t>(used_calls_++);
        called_.push_back(rule);
    }
    return calls_[call_of_[rule]];
}

void Stacks::call(Symbol rule, int32_t rest, int32_t stacks) {
    const int32_t callers = push(rest, stacks);
    Call &known = call_of(rule);
    if (known.waiting.empty() && !known.ends) turns_.push({rules_.rank(rule), rule});
    const View<Frame> more = frames(callers);
    known.waiting.insert(known.waiting.end(), more.begin(), more.end());
    known.ends |= ends(callers);
    pool_.spend(static_cast<int64_t>(more.size()) / 4);
}

// Replace the called rules by their alternatives until only terminals are left.
void Stacks::run() {
    while (!turns_.empty()) {
        const Symbol rule = turns_.top().rule;
        turns_.pop();
        Call &known = call_of(rule);
        std::vector<Frame> &fresh = known.waiting;
        std::sort(fresh.begin(), fresh.end());
        fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
        if (!known.done.empty()) {
            const auto last = std::remove_if(fresh.begin(), fresh.end(), [&](Frame f) {
                return std::binary_search(known.done.begin(), known.done.end(), f);
            });
            fresh.erase(last, fresh.end());
        }
        const bool may_end = known.ends;
        known.ends = false;
        if (fresh.empty() && known.begun && (known.done_ends || !may_end)) continue;
        const int32_t stacks = make(may_end, fresh.data(), fresh.size());
        const size_t before = known.done.size();
        known.done.insert(known.done.end(), fresh.begin(), fresh.end());
        std::inplace_merge(known.done.begin(), known.done.begin() + before, known.done.end());
        fresh.clear();
        known.done_ends |= may_end;
        known.begun = true;
        replace(rule, stacks);
    }
}

void Stacks::replace(Symbol rule, int32_t stacks) {
    if (rules_.is_repeat(rule)) {
        const Rules::Repeat repeat = rules_.repeat(rule);
        const Symbol rest = rules_.after_one(pool_, rule);
        enter(item(repeat.symbol, rest == Rules::NOTHING ? END : item(rest, END)), stacks);
        if (repeat.low == 0) enter(END, stacks);
        return;
    }
    if (static_cast<size_t>(rule) >= first_items_.size()) first_items_.resize(rules_.size(), -1);
    const int32_t count = rules_.alternatives(rule);
    if (first_items_[rule] < 0) {
        const int32_t first = static_cast<int32_t>(item_list_.size());
        for (int32_t i = 0; i < count; ++i) item_list_.push_back(first_item(rules_.alternative(rule, i)));
        first_items_[rule] = first;
    }
    for (int32_t i = 0; i < count; ++i) enter(item_list_[first_items_[rule] + i], stacks);
}

int32_t Stacks::first_item(Rules::Alternative alternative) {
    int32_t known = END;
    for (size_t i = alternative.count; i-- > 0;) known = item(alternative.data[i], known);
    return known;
}

size_t Stacks::nbytes() const {
    return items_.nbytes() + sets_.nbytes() + sizeof(Follow) * follow_.capacity() +
           sizeof(Part) * (follow_parts_.capacity() + found_.capacity()) +
           4 * (item_list_.capacity() + first_items_.capacity() + call_of_.capacity()) + stars_.capacity();
}

}  // namespace radixrt
