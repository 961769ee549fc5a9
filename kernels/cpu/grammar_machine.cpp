// States and rows of the automaton; see grammar_machine.h.

#include "grammar_machine.h"

#include <algorithm>

namespace radixrt {

namespace {

constexpr int64_t HARD = 4;  // how many times the limit of states one text may use before it is refused

}  // namespace

Machine::Machine(Pool &pool, const Rules &rules, const Limits &limits)
    : pool_(pool),
      first_terms_(pool.size()),
      first_rules_(rules.size()),
      limits_(limits),
      rules_(rules),
      stacks_(pool, rules_) {
    make_classes();
    const bool may_end = stacks_.close(stacks_.item(rules_.root(), Stacks::END), stacks_.bottom, open_);
    start_ = state_of(open_.data(), open_.size(), may_end);
    expand(start_);  // so that what is too hard from the start is refused when it is compiled
}

std::unique_ptr<Machine> Machine::fresh(const Machine &other, int64_t fuel) {
    auto pool = std::make_unique<Pool>(other.pool_, other.first_terms_);
    pool->refill(fuel);
    Rules rules = other.rules_;
    rules.truncate(other.first_rules_);
    auto machine = std::make_unique<Machine>(*pool, rules, other.limits_);
    machine->own_ = std::move(pool);
    return machine;
}

void Machine::make_classes() {
    const std::vector<Term> terms = rules_.terminals();
    const std::vector<ByteSet> blocks = pool_.byte_classes(terms.data(), terms.size());
    class_count_ = static_cast<int32_t>(blocks.size());
    group_of_.resize(class_count_);
    for (const ByteSet &block : blocks) {
        const int number = static_cast<int>(one_of_.size());
        one_of_.push_back(static_cast<uint8_t>(block.first()));
        class_size_.push_back(block.count());
        for (int byte = 0; byte < 256; ++byte)
            if (block.has(byte)) class_of_[byte] = static_cast<uint8_t>(number);
    }
}

// --- questions ---

int32_t Machine::run(int32_t state, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size && state != DEAD; ++i) state = step(state, data[i]);
    return state;
}

int32_t Machine::try_run(int32_t state, const uint8_t *data, size_t size) const {
    for (size_t i = 0; i < size && state >= 0; ++i) state = row_at(state)[class_of_[data[i]]];
    return state;
}

ByteSet Machine::exits(int32_t state) {
    const int32_t *known = row(state);
    ByteSet result;
    for (int byte = 0; byte < 256; ++byte)
        if (known[class_of_[byte]] >= 0) result.add(byte);
    return result;
}

size_t Machine::forced(int32_t &state, uint8_t *out, size_t room) {
    size_t count = 0;
    while (count < room && !accepting(state)) {
        const int32_t *known = row(state);
        int32_t only = DEAD;
        for (int32_t c = 0; c < class_count_; ++c) {
            if (known[c] < 0) continue;
            if (only != DEAD || class_size_[c] > 1) return count;
            only = c;
        }
        pool_.spend(1);
        if (only == DEAD || one_of_[only] >= FIRST_PRIVATE_BYTE) return count;
        out[count++] = one_of_[only];
        state = known[only];
    }
    return count;
}

int64_t Machine::nbytes() const {
    const size_t table = chunks_.size() * (static_cast<size_t>(class_count_) << CHUNK_BITS) * sizeof(int32_t);
    return static_cast<int64_t>(sizeof *this + table + rules_.nbytes() + stacks_.nbytes() + states_.nbytes() +
                                singles_.nbytes() + 4 * single_states_.capacity()) +
           pool_.nbytes();
}

// --- states ---

int32_t Machine::state_of(const Part *parts, size_t count, bool accepting) {
    words_.resize(1 + 2 * count);
    words_[0] = accepting;
    if (count) std::memcpy(words_.data() + 1, parts, count * sizeof *parts);
    const uint64_t hash = Interner::hash(words_.data(), words_.size());
    const int32_t known = states_.find(words_.data(), words_.size(), hash);
    if (known >= 0) return known;
    if (static_cast<int64_t>(count) > limits_.configurations) throw Overflow{Overflow::CONFIGURATIONS};
    pool_.spend(1 + static_cast<int64_t>(count));
    if (size() == static_cast<int64_t>(chunks_.size()) << CHUNK_BITS) add_chunk();
    return states_.add(words_.data(), words_.size(), hash);
}

void Machine::add_chunk() {
    const int64_t most = HARD * limits_.states;
    const int64_t chunk = int64_t{class_count_} << CHUNK_BITS;
    const int64_t bytes = static_cast<int64_t>(sizeof(int32_t)) * chunk * static_cast<int64_t>(chunks_.size() + 1);
    if (size() > most || stacks_.size() > 2 * most || (size() && bytes > limits_.table_bytes))
        throw Overflow{Overflow::STATES};
    std::unique_ptr<int32_t[]> rows(new int32_t[chunk]);
    std::fill_n(rows.get(), chunk, UNKNOWN);
    chunks_.push_back(std::move(rows));
}

// --- rows ---

void Machine::expand(int32_t state) {
    const View<Part> known = parts(state);
    parts_.assign(known.begin(), known.end());
    targets_.assign(class_count_, DEAD);
    if (parts_.size() == 1)
        expand_one(parts_[0]);
    else
        expand_many();
    std::copy(targets_.begin(), targets_.end(), row_at(state));
}

// Calls `visit` with each byte class that makes up `bytes`.
template <class Visit>
void Machine::each_class(const ByteSet &bytes, Visit visit) {
    const int count = bytes.count();
    if (count > 8) {
        pool_.spend(class_count_ / 8 + 1);
        for (int32_t c = 0; c < class_count_; ++c)
            if (bytes.has(one_of_[c])) visit(c);
        return;
    }
    pool_.spend(count);
    if (++round_ == 0) {
        std::fill(std::begin(seen_), std::end(seen_), 0);
        round_ = 1;
    }
    for (int i = 0; i < 4; ++i)
        for (uint64_t word = bytes.w[i]; word; word &= word - 1) {
            const int32_t c = class_of_[64 * i + __builtin_ctzll(word)];
            if (seen_[c] == round_) continue;
            seen_[c] = round_;
            visit(c);
        }
}

// The row of one part, the usual case: its arcs are the groups of classes.
void Machine::expand_one(Part part) {
    for (const Arc &arc : pool_.arcs(part.term)) {
        if (pool_.is_empty(arc.rest)) continue;
        const int32_t target = after({arc.rest, part.stacks});
        each_class(arc.bytes, [&](int32_t c) { targets_[c] = target; });
    }
}

// Splits the byte classes by which options they leave; each group leads to one state.
void Machine::expand_many() {
    options_.clear();
    groups_.assign(1, {-1, -1, -1, -1, DEAD});
    std::fill(group_of_.begin(), group_of_.end(), 0);
    for (const Part part : parts_)
        for (const Arc &arc : pool_.arcs(part.term)) {
            if (pool_.is_empty(arc.rest)) continue;
            options_.push_back({arc.bytes, {arc.rest, part.stacks}});
            split_classes(static_cast<int32_t>(options_.size()) - 1);
        }
    for (int32_t c = 0; c < class_count_; ++c) {
        const int32_t group = group_of_[c];
        if (group && groups_[group].target == DEAD) groups_[group].target = after_group(group);
        targets_[c] = groups_[group].target;
    }
}

void Machine::split_classes(int32_t option) {
    each_class(options_[option].bytes, [&](int32_t c) {
        const int32_t group = group_of_[c];
        if (groups_[group].moved_by != option) {
            groups_[group].moved_by = option;
            groups_[group].moved_to = static_cast<int32_t>(groups_.size());
            groups_.push_back({group, option, -1, -1, DEAD});
        }
        group_of_[c] = groups_[group].moved_to;
    });
}

int32_t Machine::after_group(int32_t group) {
    reached_.clear();
    for (int32_t g = group; g > 0; g = groups_[g].parent) reached_.push_back(options_[groups_[g].option].part);
    if (reached_.size() == 1) return after(reached_[0]);
    pool_.spend(static_cast<int64_t>(reached_.size()));
    return after_reached();
}

int32_t Machine::after(Part part) {
    const int32_t key[2] = {part.term, part.stacks};
    const uint64_t hash = Interner::hash(key, 2);
    const int32_t known = singles_.find(key, 2, hash);
    if (known >= 0) return single_states_[known];
    reached_.assign(1, part);
    const int32_t state = pool_.null(part.term) ? after_reached() : state_of(&part, 1, false);
    single_states_.push_back(state);
    singles_.add(key, 2, hash);
    return state;
}

// The state for parts some of whose terminals may be complete.
int32_t Machine::after_reached() {
    open_.clear();
    ended_.clear();
    for (const Part part : reached_) {
        if (part.term != EMPTY) open_.push_back(part);
        if (pool_.null(part.term)) ended_.push_back(part.stacks);
    }
    bool may_end = false;
    if (!ended_.empty()) {
        View<Part> follow;
        may_end = stacks_.after_terminal(stacks_.unite(ended_.data(), ended_.size()), follow);
        pool_.spend(static_cast<int64_t>(follow.size()));
        open_.insert(open_.end(), follow.begin(), follow.end());
    }
    if (open_.size() > 1) stacks_.merge(open_);
    return state_of(open_.data(), open_.size(), may_end);
}

}  // namespace radixrt
