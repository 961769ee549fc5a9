// The C interface of the grammar machine; see machine.py for its Python side.
//
// Errors come back as codes (`Status`). States cross as `2 * number + accepting`, so that nobody has to ask whether
// the text may end. A machine belongs to one thread at a time; tries and shared rows may be used by many.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

#include "grammar_machine.h"
#include "grammar_rules.h"
#include "row_digest.h"
#include "token_rows.h"
#include "token_trie.h"

using namespace radixrt;

namespace {

// A code of `Refusal`, or one of these.
enum Status : int32_t { OK = 0, TOO_MANY = 16, RULES = 32, NO_MEMORY = 5, BAD_ARGUMENT = 4 };

struct Runner {
    std::unique_ptr<Machine> machine;
    TokenRows rows;
    explicit Runner(std::unique_ptr<Machine> made) : machine(std::move(made)), rows(*machine) {}
    Machine *operator->() { return machine.get(); }
    bool knows(int32_t state) const { return state >= 0 && machine->knows(state >> 1); }
    int32_t crossing(int32_t state) const {
        return state < 0 ? state : 2 * state + machine->accepting(state);
    }
};

// Calls `work`, which may throw; the code of what it threw.
template <class Work>
int32_t guarded(Work work) {
    try {
        return work();
    } catch (const Refusal &refusal) {
        return refusal.code;
    } catch (const Overflow &overflow) {
        return TOO_MANY + overflow.code;
    } catch (const std::bad_alloc &) {
        return NO_MEMORY;
    }
}

}  // namespace

extern "C" {

// One row to write. `digest` and `status` are outputs.
struct radixrt_row_job {
    void *machine;
    void *tries;
    void *shared;
    uint32_t *row;
    int64_t fuel;
    uint64_t digest[2];  // equal for equal rows
    int32_t state;
    int32_t status;
};

int32_t radixrt_machine_abi(void) { return 2; }

// --- vocabularies and rows that are shared ---

void *radixrt_tries_new(const uint8_t *bytes, const int32_t *depth, const int32_t *subtree_end,
                        const int32_t *token_start, const int32_t *token_order, int32_t nodes, int32_t words) {
    try {
        return new TokenTries(bytes, depth, subtree_end, token_start, token_order, nodes, words);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}
void radixrt_tries_delete(void *tries) { delete static_cast<TokenTries *>(tries); }

void *radixrt_shared_rows_new(int64_t max_bytes) { return new (std::nothrow) SharedRows(max_bytes); }
void radixrt_shared_rows_delete(void *shared) { delete static_cast<SharedRows *>(shared); }
int64_t radixrt_shared_rows_nbytes(void *shared) { return static_cast<SharedRows *>(shared)->nbytes(); }
int64_t radixrt_shared_rows_count(void *shared) { return static_cast<SharedRows *>(shared)->count(); }

// --- rules ---

// `*out` gets normalised rules; nothing unless the status is 0.
int32_t radixrt_rules_new(void *pool, const int32_t *flat, int64_t words, int32_t rules, const int64_t *repeats,
                          int64_t repeat_count, int32_t root, void **out) {
    return guarded([&]() -> int32_t {
        auto made = std::make_unique<Rules>();
        Rules::Outcome outcome = made->read(*static_cast<Pool *>(pool), flat, static_cast<size_t>(words), rules,
                                            repeats, static_cast<size_t>(repeat_count));
        if (outcome == Rules::FINE) outcome = made->normalise(*static_cast<Pool *>(pool), root);
        if (outcome != Rules::FINE) return RULES - outcome;
        *out = made.release();
        return OK;
    });
}
void radixrt_rules_delete(void *rules) { delete static_cast<Rules *>(rules); }
int32_t radixrt_rules_size(void *rules) { return static_cast<Rules *>(rules)->size(); }

// --- machines ---

// The pool must outlive the machine; the rules need not.
int32_t radixrt_machine_new(void *pool, void *rules, int64_t states, int64_t configurations, int64_t table_bytes,
                            void **out) {
    return guarded([&] {
        *out = new Runner(std::make_unique<Machine>(*static_cast<Pool *>(pool), *static_cast<Rules *>(rules),
                                                    Limits{states, configurations, table_bytes}));
        return OK;
    });
}

int32_t radixrt_machine_fresh(void *machine, int64_t fuel, void **out) {
    return guarded([&] {
        *out = new Runner(Machine::fresh(*static_cast<Runner *>(machine)->machine, fuel));
        return OK;
    });
}

void radixrt_machine_delete(void *machine) { delete static_cast<Runner *>(machine); }

int32_t radixrt_machine_start(void *machine) {
    Runner &runner = *static_cast<Runner *>(machine);
    return runner.crossing(runner->start());
}
int32_t radixrt_machine_size(void *machine) { return (*static_cast<Runner *>(machine))->size(); }
int64_t radixrt_machine_nbytes(void *machine) { return (*static_cast<Runner *>(machine))->nbytes(); }

// The state after some bytes, as far as it can be told without work: UNKNOWN (-2) otherwise.
int32_t radixrt_machine_try_run(void *machine, int32_t state, const uint8_t *data, int64_t size) {
    Runner &runner = *static_cast<Runner *>(machine);
    if (!runner.knows(state)) return Machine::DEAD;
    return runner.crossing(runner->try_run(state >> 1, data, static_cast<size_t>(size)));
}

int32_t radixrt_machine_run(void *machine, int64_t fuel, int32_t state, const uint8_t *data, int64_t size,
                            int32_t *out) {
    Runner &runner = *static_cast<Runner *>(machine);
    if (!runner.knows(state)) return BAD_ARGUMENT;
    return guarded([&] {
        runner->pool().refill(fuel);
        *out = runner.crossing(runner->run(state >> 1, data, static_cast<size_t>(size)));
        return OK;
    });
}

// Run from one state over several strings, string i being data[starts[i] .. starts[i + 1]).
int32_t radixrt_machine_run_many(void *machine, int64_t fuel, int32_t state, const uint8_t *data,
                                 const int32_t *starts, int32_t count, int32_t *out) {
    Runner &runner = *static_cast<Runner *>(machine);
    if (!runner.knows(state)) return BAD_ARGUMENT;
    return guarded([&] {
        runner->pool().refill(fuel);
        for (int32_t i = 0; i < count; ++i) {
            const size_t size = static_cast<size_t>(starts[i + 1] - starts[i]);
            out[i] = runner.crossing(runner->run(state >> 1, data + starts[i], size));
        }
        return OK;
    });
}

// The bytes on which a state leads somewhere, as 256 bits.
int32_t radixrt_machine_exits(void *machine, int64_t fuel, int32_t state, uint64_t *out) {
    Runner &runner = *static_cast<Runner *>(machine);
    if (!runner.knows(state)) return BAD_ARGUMENT;
    return guarded([&] {
        runner->pool().refill(fuel);
        const ByteSet found = runner->exits(state >> 1);
        std::copy(found.w, found.w + 4, out);
        return OK;
    });
}

// The bytes that follow with certainty: `out` has room for `room`, `*size` and `*state` are in and out.
int32_t radixrt_machine_forced(void *machine, int64_t fuel, int32_t *state, uint8_t *out, int64_t room,
                               int64_t *size) {
    Runner &runner = *static_cast<Runner *>(machine);
    if (!runner.knows(*state)) return BAD_ARGUMENT;
    return guarded([&] {
        runner->pool().refill(fuel);
        int32_t after = *state >> 1;
        *size = static_cast<int64_t>(runner->forced(after, out, static_cast<size_t>(room)));
        *state = runner.crossing(after);
        return OK;
    });
}

// The tokens below a node of the trie (itself excluded) whose further bytes a state allows.
int32_t radixrt_machine_below(void *machine, void *tries, int64_t fuel, int32_t state, int32_t node, uint32_t *row) {
    Runner &runner = *static_cast<Runner *>(machine);
    const Trie &trie = static_cast<TokenTries *>(tries)->all;
    if (!runner.knows(state) || node < -1 || node >= trie.count()) return BAD_ARGUMENT;
    return guarded([&] {
        runner->pool().refill(fuel);
        runner.rows.walk(trie, node, state >> 1, row);
        return OK;
    });
}

// Write the tokens that a state allows, and the digest of that row: two words.
int32_t radixrt_machine_row(void *machine, void *tries, void *shared, int64_t fuel, int32_t state, uint32_t *row,
                            uint64_t *digest) {
    Runner &runner = *static_cast<Runner *>(machine);
    if (!runner.knows(state)) return BAD_ARGUMENT;
    return guarded([&] {
        const TokenTries &all = *static_cast<TokenTries *>(tries);
        runner->pool().refill(fuel);
        std::fill_n(row, all.words, 0);
        runner.rows.compose(all, *static_cast<SharedRows *>(shared), state >> 1, row);
        const HashKey found = row_digest(row, all.words);
        digest[0] = found.low;
        digest[1] = found.high;
        return OK;
    });
}

// Rows of several machines, each with its own fuel and status; a row that fails is not to be used.
void radixrt_machine_rows(radixrt_row_job *jobs, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
        radixrt_row_job &job = jobs[i];
        job.status = radixrt_machine_row(job.machine, job.tries, job.shared, job.fuel, job.state, job.row,
                                         job.digest);
    }
}

}  // extern "C"
