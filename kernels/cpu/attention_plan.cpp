// How a batch is laid out; see attention_plan.h. How the tasks run is in attention_run.cpp.

#include "attention_plan.h"

#include <algorithm>
#include <cstring>

namespace radixrt {

namespace {

constexpr int64_t kMostQueries = 96;      // rows of a product in one unit: their scores stay in the second cache
constexpr int64_t kMostPartials = 16384;  // rows of partial results, per kv head, beyond which long members merge
constexpr int64_t kMostTogether = 144;    // the same over the heads that a task does together
constexpr int64_t kPieceFloats = 512;     // of one slot, that make a piece of memory long
constexpr int64_t kFewQueries = 16;       // rows of a product; members of so few always leave partial results

// How many leading slots two rows have in common.
int64_t common_prefix(const int32_t *a, int64_t a_length, const int32_t *b, int64_t b_length) {
    constexpr int64_t kStep = 1024;
    const int64_t length = std::min(a_length, b_length);
    if (a == b) return length;
    int64_t i = 0;
    while (i + kStep <= length && std::memcmp(a + i, b + i, kStep * sizeof *a) == 0) i += kStep;
    while (i < length && a[i] == b[i]) ++i;
    return i;
}

int32_t span_of(int64_t position) { return static_cast<int32_t>(position / kSpan); }

}  // namespace

void AttentionPlan::make(const AttentionRows &rows) {
    members_.clear();
    unit_members_.clear();
    tiles_.clear();
    units_.clear();
    tasks_.clear();
    merged_.clear();
    order_rows(rows);
    cut_rows(rows);
    place_partials();
    int32_t spans = 0;
    for (const Member &member : members_) spans = std::max(spans, span_of(member.end - 1) + 1);
    for (int32_t span = 0; span < spans; ++span) add_units(span);
    const auto unit_count = [this] { return static_cast<int32_t>(units_.size()); };
    for (int32_t unit = 0; unit < unit_count(); ++unit) add_tasks(unit, unit + 1);
    for (int32_t m = 0; m < static_cast<int32_t>(members_.size()); ++m) {
        if (!members_[m].in_one_task) continue;
        const int32_t first = unit_count();
        for (int32_t s = 0; s < members_[m].spans; ++s) add_unit(members_[m].first_span + s, &m, 1);
        add_tasks(first, unit_count());
    }
    // The longest first, so that no thread is left with one.
    std::stable_sort(tasks_.begin(), tasks_.end(), [](const Task &a, const Task &b) { return a.cost > b.cost; });
}

// Lexicographic order of the slots, shorter rows first; rows without new tokens are left out. shared_[i] is what
// the i-th row has in common with the one before it.
void AttentionPlan::order_rows(const AttentionRows &rows) {
    order_.clear();
    least_slot_ = INT32_MAX;
    greatest_slot_ = -1;
    for (int64_t row = 0; row < rows.rows; ++row) {
        if (rows.query_start[row + 1] == rows.query_start[row]) continue;
        order_.push_back(row);
        const int32_t *slots = rows.slots[row];
        int32_t least = INT32_MAX, greatest = -1;
        for (int64_t i = 0; i < rows.lengths[row]; ++i) {
            least = std::min(least, slots[i]);
            greatest = std::max(greatest, slots[i]);
        }
        least_slot_ = std::min(least_slot_, least);
        greatest_slot_ = std::max(greatest_slot_, greatest);
    }
    if (order_.empty()) least_slot_ = 0;
    const auto shared = [&rows](int64_t a, int64_t b) {
        return common_prefix(rows.slots[a], rows.lengths[a], rows.slots[b], rows.lengths[b]);
    };
    std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
        if (a == b) return false;
        const int64_t same = shared(a, b);
        if (same == rows.lengths[a] || same == rows.lengths[b]) {
            return rows.lengths[a] != rows.lengths[b] ? rows.lengths[a] < rows.lengths[b] : a < b;
        }
        return rows.slots[a][same] < rows.slots[b][same];
    });
    shared_.assign(order_.size(), 0);
    for (size_t i = 1; i < order_.size(); ++i) shared_[i] = shared(order_[i - 1], order_[i]);
}

void AttentionPlan::cut_rows(const AttentionRows &rows) {
    const int64_t step = std::max<int64_t>(1, kMostQueries / group());
    most_queries_ = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
        const int64_t row = order_[i], length = rows.lengths[row];
        const int64_t first = rows.query_start[row], last = rows.query_start[row + 1];
        for (int64_t token = first; token < last; token += step) {
            Member member{};
            member.slots = rows.slots[row];
            member.token = token;
            member.queries = static_cast<int32_t>(std::min(step, last - token));
            member.position = length - (last - token);
            member.begin = shape_.window == 0 ? 0 : std::max<int64_t>(0, member.position + 1 - shape_.window);
            member.end = member.position + member.queries;
            member.shared = token == first ? shared_[i] : length;
            member.first_span = span_of(member.begin);
            member.spans = span_of(member.end - 1) + 1 - member.first_span;
            members_.push_back(member);
        }
    }
}

void AttentionPlan::place_partials() {
    const auto rows = [this](const Member &member) { return static_cast<int64_t>(member.queries) * group(); };
    int64_t wanted = 0;
    for (const Member &member : members_) wanted += rows(member) * member.spans;
    partial_rows_ = 0;
    for (size_t m = 0; m < members_.size(); ++m) {
        Member &member = members_[m];
        member.in_one_task = wanted > kMostPartials && rows(member) > kFewQueries && member.spans > 1;
        if (member.in_one_task) continue;
        member.partial = partial_rows_;
        partial_rows_ += rows(member) * member.spans;
        if (member.spans > 1) merged_.push_back(static_cast<int32_t>(m));
    }
}

// The units of one span, of the members that leave partial results.
void AttentionPlan::add_units(int32_t span) {
    const int64_t tile_end = static_cast<int64_t>(span) * kSpan + kTile;
    candidates_.clear();
    const Member *longest = nullptr;
    int64_t shared = 0, queries = 0;
    for (int32_t m = 0; m < static_cast<int32_t>(members_.size()); ++m) {
        const Member &member = members_[m];
        shared = std::min(shared, member.shared);
        if (member.in_one_task || span < member.first_span || span >= member.first_span + member.spans) continue;
        const int64_t own = static_cast<int64_t>(member.queries) * group();
        if (longest != nullptr && (shared < std::min({tile_end, longest->end, member.end}) ||
                                   queries + own > kMostQueries)) {
            add_unit(span, candidates_.data(), static_cast<int32_t>(candidates_.size()));
            candidates_.clear();
            longest = nullptr;
        }
        if (longest == nullptr || member.end >= longest->end) {
            longest = &member;
            shared = INT64_MAX;
        }
        queries = candidates_.empty() ? own : queries + own;
        candidates_.push_back(m);
    }
    if (!candidates_.empty()) add_unit(span, candidates_.data(), static_cast<int32_t>(candidates_.size()));
}

void AttentionPlan::add_unit(int32_t span, const int32_t *members, int32_t count) {
    Unit unit{};
    unit.span = span;
    unit.first_member = static_cast<int32_t>(unit_members_.size());
    unit_members_.insert(unit_members_.end(), members, members + count);
    unit.last_member = static_cast<int32_t>(unit_members_.size());
    unit.first_tile = static_cast<int32_t>(tiles_.size());
    const int64_t origin = static_cast<int64_t>(span) * kSpan;
    for (int32_t start = 0; start < kSpan; start += kTile) add_tiles(unit, origin + start);
    unit.last_tile = static_cast<int32_t>(tiles_.size());
    for (int32_t i = 0; i < count; ++i) unit.queries += members_[members[i]].queries * group();
    units_.push_back(unit);
}

// One tile of a unit, once for every run of members that have the same slots in it as far as they go. The longest
// member of a run has all of its slots: `shared` is what the member at hand has in common with that one.
void AttentionPlan::add_tiles(Unit &unit, int64_t start) {
    const int64_t stop = start + kTile, origin = static_cast<int64_t>(unit.span) * kSpan;
    const Member *longest = nullptr;
    int64_t begin = 0, shared = 0;
    int32_t query = 0, previous = -1, first_query = 0, last_query = 0;
    const auto close = [&] {
        const int64_t end = std::min(stop, longest->end);
        tiles_.push_back({longest->slots + begin, static_cast<int32_t>(start - origin),
                          static_cast<int32_t>(begin - origin), static_cast<int32_t>(end - origin), first_query,
                          last_query});
    };
    for (int32_t i = unit.first_member; i < unit.last_member; ++i) {
        const Member &member = members_[unit_members_[i]];
        const int32_t own = member.queries * group();
        for (int32_t m = previous + 1; previous >= 0 && m <= unit_members_[i]; ++m) {
            shared = std::min(shared, members_[m].shared);
        }
        previous = unit_members_[i];
        query += own;
        if (member.begin >= stop || member.end <= start) continue;
        if (longest != nullptr && shared < std::min({stop, longest->end, member.end})) {
            close();
            longest = nullptr;
        }
        if (longest == nullptr) {
            begin = std::max(start, member.begin);
            first_query = query - own;
        }
        if (longest == nullptr || member.end >= longest->end) {
            longest = &member;
            shared = INT64_MAX;
        }
        begin = std::min(begin, std::max(start, member.begin));
        last_query = query;
    }
    if (longest != nullptr) close();
}

// How many kv heads a task does at a time: enough for long pieces of memory, where the work on them is little.
int AttentionPlan::heads_together(const Unit &unit) const {
    const int64_t by_memory = std::max<int64_t>(1, kPieceFloats / shape_.head_dim);
    const int64_t by_work = unit.queries > kMostTogether / 2 ? 1 : kMostTogether / unit.queries;
    const int64_t most = std::min(by_memory, by_work);
    const int64_t blocks = (shape_.kv_heads + most - 1) / most;
    return static_cast<int>((shape_.kv_heads + blocks - 1) / blocks);
}

void AttentionPlan::add_tasks(int32_t first_unit, int32_t last_unit) {
    int64_t cost = 0;
    for (int32_t u = first_unit; u < last_unit; ++u) {
        for (int32_t t = units_[u].first_tile; t < units_[u].last_tile; ++t) {
            cost += (tiles_[t].end - tiles_[t].begin) * (tiles_[t].last_query - tiles_[t].first_query + 4);
        }
    }
    const int step = last_unit - first_unit > 1 ? 1 : heads_together(units_[first_unit]);
    for (int head = 0; head < shape_.kv_heads; head += step) {
        const int last = std::min(head + step, shape_.kv_heads);
        tasks_.push_back({first_unit, last_unit, head, last, cost * (last - head)});
        most_queries_ = std::max<int64_t>(most_queries_, int64_t{units_[first_unit].queries} * (last - head));
    }
}

}  // namespace radixrt
