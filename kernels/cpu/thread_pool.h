// A fixed set of threads that share the tasks of one loop at a time.
//
// The caller works too: a pool of n threads starts n - 1, a pool of one starts none and is a plain loop. Tasks are
// handed out one by one in ascending order, so a thread that the system holds up delays only the task it has. A
// worker that finds nothing to do spins for at most 30 microseconds and then sleeps. Which thread runs a task is
// not fixed: a task must not care, except to pick scratch memory by the number of its worker.
//
// What it does not know: what the tasks do, and how many threads the machine should give.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace radixrt {

class ThreadPool {
  public:
    // Runs one task. `worker` is in [0, threads()); no two tasks at one time have the same one. Must not throw.
    using Body = void (*)(void *context, int64_t task, int worker);

    // The most tasks of one loop; callers cut their work into far fewer.
    static constexpr int64_t kMostTasks = INT32_MAX;

    // Starts the threads. Throws std::system_error when the system refuses one.
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool &) = delete;
    ThreadPool &operator=(const ThreadPool &) = delete;

    int threads() const { return threads_; }

    // False in a child process made by fork: the threads stayed with the parent.
    bool usable() const;

    // Runs body(context, 0, ...) to body(context, tasks - 1, ...) and returns when all are done; what they wrote is
    // then visible here. Calls from several threads take turns; a call from inside a task of this pool runs in
    // place, as that worker. False, with nothing run, if the pool is not usable or given more than kMostTasks.
    bool run(int64_t tasks, Body body, void *context);

    // The same for a callable taking (task, worker).
    template <class Callable> bool parallel_for(int64_t tasks, const Callable &callable) {
        return run(
            tasks,
            [](void *context, int64_t task, int worker) {
                (*static_cast<const Callable *>(context))(task, worker);
            },
            const_cast<void *>(static_cast<const void *>(&callable)));
    }

  private:
    struct Shared;

    static void work(Shared &shared, int worker);
    static bool take_one(Shared &shared, int worker);
    static void run_here(int64_t tasks, Body body, void *context, int worker);

    const int threads_;
    const uint64_t born_;  // how many forks lay between the start of the program and this pool
    std::mutex turn_;      // held for the length of a loop
    std::vector<std::thread> workers_;
    std::unique_ptr<Shared> shared_;
};

}  // namespace radixrt
