// The C ABI of attention. The caller checks shapes, types and that every slot lies in the pools.

#include <new>

#include "attention_plan.h"
#include "cpu_features.h"
#include "thread_pool.h"

namespace {

const radixrt::AttentionKernel *kernel_for(radixrt::InstructionSet wanted) {
    using radixrt::InstructionSet;
    static const InstructionSet best = radixrt::best_instruction_set();
    if (wanted > best) return nullptr;
    switch (wanted) {
        case InstructionSet::avx512: return radixrt::attention_kernel_avx512();
        case InstructionSet::avx2: return radixrt::attention_kernel_avx2();
        case InstructionSet::generic: return radixrt::attention_kernel_generic();
    }
    return nullptr;
}

}  // namespace

extern "C" {

// The version of this interface; the Python side refuses any other.
int32_t radixrt_attention_abi(void) { return 1; }

// Whether attention can run with this instruction set here.
int32_t radixrt_attention_has(int32_t instruction_set) {
    return kernel_for(static_cast<radixrt::InstructionSet>(instruction_set)) != nullptr ? 1 : 0;
}

// Null without memory.
radixrt::AttentionPlan *radixrt_attention_plan_new(const radixrt::AttentionShape *shape) {
    return new (std::nothrow) radixrt::AttentionPlan(*shape);
}

void radixrt_attention_plan_delete(radixrt::AttentionPlan *plan) { delete plan; }

// Lays out a batch, for up to so many threads. limits[0 .. 3): the least and the greatest slot that is read, and
// the tiles that are brought together per kv head. 0 without memory.
int32_t radixrt_attention_plan_make(radixrt::AttentionPlan *plan, const radixrt::AttentionRows *rows,
                                    int32_t threads, int64_t *limits) {
    try {
        plan->make(*rows);
        plan->reserve(threads < 1 ? 1 : threads);
    } catch (const std::bad_alloc &) {
        return 0;
    }
    limits[0] = plan->least_slot();
    limits[1] = plan->greatest_slot();
    limits[2] = plan->tiles();
    return 1;
}

// Runs one layer. `pool` may be null: then this thread does it all; it must not have more threads than the plan was
// made for. `call->kernel` is filled in here. 0 if the pool refused or there is no such kernel.
int32_t radixrt_attention_run(radixrt::AttentionPlan *plan, radixrt::AttentionCall *call, int32_t instruction_set,
                              radixrt::ThreadPool *pool) {
    call->kernel = kernel_for(static_cast<radixrt::InstructionSet>(instruction_set));
    if (call->kernel == nullptr) return 0;
    const auto task = [&](int64_t index, int worker) { plan->run_task(*call, index, worker); };
    const auto merge = [&](int64_t index, int) { plan->run_merge_task(*call, index); };
    if (pool != nullptr) {
        return pool->parallel_for(plan->tasks(), task) && pool->parallel_for(plan->merge_tasks(), merge) ? 1 : 0;
    }
    for (int64_t i = 0; i < plan->tasks(); ++i) task(i, 0);
    for (int64_t i = 0; i < plan->merge_tasks(); ++i) merge(i, 0);
    return 1;
}

}  // extern "C"
