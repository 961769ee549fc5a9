// The layout of one batch for attention: which queries go over which tiles together, and in which tasks.
//
// Rows are put in lexicographic order of their slots, so that rows which share a prefix stand next to each other.
// Long rows are cut into *members* of at most kMostQueries rows of a product. For every span, neighbours that
// share its first tile make a *unit*, which brings each tile together once for all that have the same slots in it.
// A task is one unit and a few kv heads; it leaves partial results that a second round of tasks merges in
// ascending order of spans. Where partial results would need too much room, a task is all spans of a member
// instead and merges as it goes. Who shares with whom, and which kind of task does the work, changes no result.
//
// A plan is good for every layer of a forward. It reads the slots of the rows while it is used: they must live as
// long. It is made anew for the next batch in the memory it has. Scratch memory is allocated when a plan first
// needs more of it, never inside of tasks.
//
// What it does not know: layers, who owns a slot, threads beyond their number.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "attention_kernel.h"

namespace radixrt {

struct AttentionShape {
    int32_t heads, kv_heads, head_dim;
    int32_t window;  // 0: none; else a query sees the `window` last positions, itself among them
};

struct AttentionRows {
    const int64_t *query_start;      // rows + 1: the flat tokens of a row are query_start[r] .. query_start[r + 1]
    const int32_t *const *slots;     // of a row's positions, its new tokens last
    const int64_t *lengths;          // of each row of slots; at least its number of new tokens
    int64_t rows;
};

// One layer's operands. All pools are contiguous [slots, kv_heads, head_dim].
struct AttentionCall {
    const float *query;    // [tokens][heads][head_dim], tokens query_stride floats apart
    float *out;            // the same
    const void *keys, *values;
    const float *key_scales, *value_scales;
    int64_t query_stride, out_stride;
    KvKind kind;
    float scale, softcap;
    const AttentionKernel *kernel;
};

class AttentionPlan {
  public:
    explicit AttentionPlan(const AttentionShape &shape) : shape_(shape) {}

    void make(const AttentionRows &rows);

    // The smallest and the greatest slot that is read; 0 and -1 for no slot at all.
    int32_t least_slot() const { return least_slot_; }
    int32_t greatest_slot() const { return greatest_slot_; }
    const AttentionShape &shape() const { return shape_; }

    // Before the tasks of a call: room for so many workers.
    void reserve(int workers);
    // First all of tasks(), in any order and at the same time, then all of merge_tasks().
    int64_t tasks() const { return static_cast<int64_t>(tasks_.size()); }
    int64_t merge_tasks() const { return static_cast<int64_t>(merged_.size()) * shape_.kv_heads; }
    void run_task(const AttentionCall &call, int64_t task, int worker);
    void run_merge_task(const AttentionCall &call, int64_t task);

    // Tiles brought together, per kv head: what sharing saves is seen in it.
    int64_t tiles() const { return static_cast<int64_t>(tiles_.size()); }

  private:
    struct Member {
        const int32_t *slots;
        int64_t token;        // the first, flat
        int64_t position;     // of that token
        int64_t begin, end;   // positions that any of its queries sees
        int64_t shared;       // leading slots it has in common with the member before it
        int64_t partial;      // its place among the partial results, in queries of one kv head
        int32_t queries;      // tokens
        int32_t first_span, spans;
        bool in_one_task;     // all spans
    };
    struct Unit {
        int32_t span;
        int32_t first_member, last_member;  // in unit_members_
        int32_t first_tile, last_tile;
        int32_t queries;  // rows of a product
    };
    struct Task {
        int32_t first_unit, last_unit;  // more than one: all spans of a member
        int32_t first_head, last_head;
        int64_t cost;
    };
    struct Workspace {
        std::vector<SpanQuery> queries;
        std::vector<float> memory;  // on no particular boundary
        float *scratch = nullptr;   // of a span
        float *parts = nullptr;     // the results of one span for most_queries_ queries, and then of all before it
    };

    int group() const { return shape_.heads / shape_.kv_heads; }
    void order_rows(const AttentionRows &rows);
    void cut_rows(const AttentionRows &rows);
    void place_partials();
    void add_units(int32_t span);
    void add_unit(int32_t span, const int32_t *members, int32_t count);
    void add_tiles(Unit &unit, int64_t start);
    int heads_together(const Unit &unit) const;
    void add_tasks(int32_t first_unit, int32_t last_unit);
    void run_unit(const AttentionCall &call, const Unit &unit, const Task &task, Workspace &workspace,
                  float *parts);
    void run_whole(const AttentionCall &call, const Task &task, Workspace &workspace);
    int add_queries(const AttentionCall &call, const Member &member, int32_t span, int head, float *partial,
                    SpanQuery *queries) const;
    void absorb(const AttentionCall &call, const Member &member, int32_t span, const float *parts,
                float *totals) const;
    float *partial_of(const Member &member, int32_t span, int head);
    void finish(const AttentionCall &call, const Member &member, int head, const float *totals) const;
    // The half-open range of a span's positions that a query sees, from the beginning of the span; 0, 0 for none.
    std::pair<int32_t, int32_t> seen(int64_t position, int32_t span) const;

    AttentionShape shape_;
    int32_t least_slot_ = 0, greatest_slot_ = -1;
    int64_t most_queries_ = 0;  // of one task, in rows of a product
    int64_t partial_rows_ = 0;  // per kv head
    std::vector<int64_t> order_, shared_;
    std::vector<Member> members_;
    std::vector<int32_t> unit_members_, candidates_, merged_;
    std::vector<SpanTile> tiles_;
    std::vector<Unit> units_;
    std::vector<Task> tasks_;
    std::vector<float> partials_;
    std::vector<Workspace> workspaces_;
};

}  // namespace radixrt
