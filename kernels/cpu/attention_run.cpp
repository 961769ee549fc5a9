// How the tasks of an attention plan run; see attention_plan.h. Nothing is allocated here outside of reserve().

#include <algorithm>
#include <cstring>

#include "attention_plan.h"

namespace radixrt {

namespace {

constexpr int64_t kLine = 64;  // bytes

int64_t size_of(KvKind kind) { return kind == KvKind::kFloat32 ? 4 : kind == KvKind::kFloat16 ? 2 : 1; }

KvView view_of(const AttentionCall &call, const AttentionShape &shape, int head) {
    const int64_t offset = static_cast<int64_t>(head) * shape.head_dim * size_of(call.kind);
    KvView view{};
    view.keys = static_cast<const char *>(call.keys) + offset;
    view.values = static_cast<const char *>(call.values) + offset;
    if (call.kind == KvKind::kInt8) {
        view.key_scales = call.key_scales + head;
        view.value_scales = call.value_scales + head;
    }
    view.slot_stride = static_cast<int64_t>(shape.kv_heads) * shape.head_dim;
    view.scale_stride = shape.kv_heads;
    view.kind = call.kind;
    view.head_dim = shape.head_dim;
    return view;
}

}  // namespace

void AttentionPlan::reserve(int workers) {
    const size_t floats = static_cast<size_t>(partial_floats(shape_.head_dim));
    const size_t partials = floats * static_cast<size_t>(partial_rows_ * shape_.kv_heads);
    if (partials_.size() < partials) partials_.resize(partials);
    if (workspaces_.size() < static_cast<size_t>(workers)) workspaces_.resize(static_cast<size_t>(workers));
    const int64_t scratch = scratch_floats(shape_.head_dim, most_queries_);
    const size_t wanted = static_cast<size_t>(scratch + kLine) + 2 * floats * static_cast<size_t>(most_queries_);
    for (Workspace &workspace : workspaces_) {
        if (workspace.memory.size() >= wanted) continue;
        workspace.queries.resize(static_cast<size_t>(most_queries_));
        workspace.memory.assign(wanted, 0.0f);
        const uintptr_t address = reinterpret_cast<uintptr_t>(workspace.memory.data());
        workspace.scratch = workspace.memory.data() + (-address & (kLine - 1)) / sizeof(float);
        workspace.parts = workspace.scratch + scratch;
    }
}

std::pair<int32_t, int32_t> AttentionPlan::seen(int64_t position, int32_t span) const {
    const int64_t origin = static_cast<int64_t>(span) * kSpan;
    const int64_t last = std::min<int64_t>(position + 1 - origin, kSpan);
    const int64_t oldest = shape_.window == 0 ? 0 : position + 1 - shape_.window;
    const int64_t first = std::max<int64_t>(oldest - origin, 0);
    if (first >= last) return {0, 0};
    return {static_cast<int32_t>(first), static_cast<int32_t>(last)};
}

float *AttentionPlan::partial_of(const Member &member, int32_t span, int head) {
    const int64_t rows = static_cast<int64_t>(member.queries) * group();
    const int64_t row = head * partial_rows_ + member.partial + (span - member.first_span) * rows;
    return partials_.data() + row * partial_floats(shape_.head_dim);
}

// One member's rows of a product, tokens first; how many.
int AttentionPlan::add_queries(const AttentionCall &call, const Member &member, int32_t span, int head,
                               float *partial, SpanQuery *queries) const {
    const int floats = partial_floats(shape_.head_dim);
    int count = 0;
    for (int32_t token = 0; token < member.queries; ++token) {
        const std::pair<int32_t, int32_t> range = seen(member.position + token, span);
        const float *query = call.query + (member.token + token) * call.query_stride +
                             static_cast<int64_t>(head) * group() * shape_.head_dim;
        for (int g = 0; g < group(); ++g, ++count) {
            queries[count] = {query + static_cast<int64_t>(g) * shape_.head_dim, partial + int64_t{count} * floats,
                              range.first, range.second};
        }
    }
    return count;
}

// Runs one span; the results go to `parts`, or where it is null to the members' own places.
void AttentionPlan::run_unit(const AttentionCall &call, const Unit &unit, const Task &task, Workspace &workspace,
                             float *parts) {
    int count = 0;
    for (int head = task.first_head; head < task.last_head; ++head) {
        for (int32_t i = unit.first_member; i < unit.last_member; ++i) {
            const Member &member = members_[unit_members_[i]];
            float *partial = parts != nullptr ? parts : partial_of(member, unit.span, head);
            count += add_queries(call, member, unit.span, head, partial, workspace.queries.data() + count);
        }
    }
    SpanWork work{};
    work.kv = view_of(call, shape_, task.first_head);
    work.queries = workspace.queries.data();
    work.tiles = tiles_.data() + unit.first_tile;
    work.heads = task.last_head - task.first_head;
    work.query_count = unit.queries;
    work.tile_count = unit.last_tile - unit.first_tile;
    work.scale = call.scale;
    work.softcap = call.softcap;
    work.scratch = workspace.scratch;
    call.kernel->run_span(work);
}

// Takes what a span gave the member's queries into what the spans before it gave them.
void AttentionPlan::absorb(const AttentionCall &call, const Member &member, int32_t span, const float *parts,
                           float *totals) const {
    const int64_t floats = partial_floats(shape_.head_dim);
    for (int32_t token = 0; token < member.queries; ++token) {
        const int64_t position = member.position + token;
        if (seen(position, span).second == 0) continue;
        const bool is_first = span == 0 || seen(position, span - 1).second == 0;
        for (int64_t row = int64_t{token} * group(); row < int64_t{token + 1} * group(); ++row) {
            float *total = totals + row * floats;
            const float *part = parts + row * floats;
            if (!is_first) {
                call.kernel->merge(total, part, shape_.head_dim);
            } else if (total != part) {
                std::memcpy(total, part, static_cast<size_t>(floats) * sizeof *total);
            }
        }
    }
}

// All spans of one member in ascending order, for one head.
void AttentionPlan::run_whole(const AttentionCall &call, const Task &task, Workspace &workspace) {
    const Member &member = members_[unit_members_[units_[task.first_unit].first_member]];
    float *totals = workspace.parts + most_queries_ * partial_floats(shape_.head_dim);
    for (int32_t u = task.first_unit; u < task.last_unit; ++u) {
        run_unit(call, units_[u], task, workspace, workspace.parts);
        absorb(call, member, units_[u].span, workspace.parts, totals);
    }
    finish(call, member, task.first_head, totals);
}

void AttentionPlan::run_task(const AttentionCall &call, int64_t index, int worker) {
    const Task &task = tasks_[static_cast<size_t>(index)];
    Workspace &workspace = workspaces_[static_cast<size_t>(worker)];
    const Unit &unit = units_[task.first_unit];
    if (members_[unit_members_[unit.first_member]].in_one_task) return run_whole(call, task, workspace);
    run_unit(call, unit, task, workspace, nullptr);
    for (int32_t i = unit.first_member; i < unit.last_member; ++i) {
        const Member &member = members_[unit_members_[i]];
        if (member.spans > 1) continue;
        for (int head = task.first_head; head < task.last_head; ++head) {
            finish(call, member, head, partial_of(member, unit.span, head));
        }
    }
}

void AttentionPlan::run_merge_task(const AttentionCall &call, int64_t index) {
    const Member &member = members_[merged_[static_cast<size_t>(index / shape_.kv_heads)]];
    const int head = static_cast<int>(index % shape_.kv_heads);
    float *totals = partial_of(member, member.first_span, head);
    for (int32_t span = member.first_span; span < member.first_span + member.spans; ++span) {
        absorb(call, member, span, partial_of(member, span, head), totals);
    }
    finish(call, member, head, totals);
}

void AttentionPlan::finish(const AttentionCall &call, const Member &member, int head, const float *totals) const {
    const int64_t floats = partial_floats(shape_.head_dim);
    for (int32_t token = 0; token < member.queries; ++token) {
        float *out = call.out + (member.token + token) * call.out_stride +
                     static_cast<int64_t>(head) * group() * shape_.head_dim;
        for (int g = 0; g < group(); ++g, totals += floats, out += shape_.head_dim) {
            call.kernel->finish(totals, shape_.head_dim, out);
        }
    }
}

}  // namespace radixrt
