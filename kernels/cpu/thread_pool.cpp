// See thread_pool.h. The tasks still to be handed out are the lower half of one atomic word and the number of the
// loop is its upper half, so that a worker that comes late can neither take a task of a loop that is over nor
// mistake a new loop for the old: once its exchange succeeds, the loop cannot end before its task has.

#include "thread_pool.h"

#include <chrono>
#include <new>
#include <system_error>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace radixrt {

namespace {

constexpr uint64_t kLeft = 0xffffffffu;
constexpr std::chrono::microseconds kSpin{30};

// Forks that lie behind this process. A handler of pthread_atfork raises it: asking for the process id instead
// would be a system call per loop.
std::atomic<uint64_t> forks{0};

void count_forks() {
#if defined(__unix__) || defined(__APPLE__)
    static const int registered = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
    if (registered != 0) throw std::system_error(registered, std::generic_category(), "pthread_atfork");
#endif
}

// The pool whose task this thread is running, if any, and as which worker.
thread_local const void *current_pool = nullptr;
thread_local int current_worker = 0;

// Makes this thread a worker of a pool for a while.
struct Role {
    Role(const void *pool, int worker) : outer_pool(current_pool), outer_worker(current_worker) {
        current_pool = pool;
        current_worker = worker;
    }
    ~Role() {
        current_pool = outer_pool;
        current_worker = outer_worker;
    }
    Role(const Role &) = delete;
    Role &operator=(const Role &) = delete;
    const void *const outer_pool;
    const int outer_worker;
};

inline void pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Spins until the condition holds; false if it does not within kSpin.
template <class Condition> bool spin(const Condition &holds) {
    const auto start = std::chrono::steady_clock::now();
    do {
        for (int i = 0; i < 32; ++i) {
            if (holds()) return true;
            pause();
        }
    } while (std::chrono::steady_clock::now() - start < kSpin);
    return false;
}

}  // namespace

struct ThreadPool::Shared {
    // Each on a line of its own: the first is read by all who spin, the second written after each task.
    alignas(64) std::atomic<uint64_t> tickets{0};
    alignas(64) std::atomic<int64_t> unfinished{0};
    alignas(64) std::atomic<bool> stop{false};
    std::atomic<int> asleep{0};
    std::atomic<bool> caller_asleep{false};
    std::mutex mutex;
    std::condition_variable started, finished;
    // The loop at hand. Written only while no ticket is out.
    Body body = nullptr;
    void *context = nullptr;
    int64_t tasks = 0;
};

ThreadPool::ThreadPool(int threads)
    : threads_(threads < 1 ? 1 : threads), born_(forks.load(std::memory_order_relaxed)), shared_(new Shared) {
    if (threads_ == 1) return;
    count_forks();
    workers_.reserve(static_cast<size_t>(threads_ - 1));
    try {
        for (int worker = 1; worker < threads_; ++worker) {
            workers_.emplace_back([shared = shared_.get(), worker] { work(*shared, worker); });
        }
    } catch (...) {
        {
            const std::lock_guard<std::mutex> lock(shared_->mutex);
            shared_->stop.store(true);
        }
        shared_->started.notify_all();
        for (std::thread &thread : workers_) thread.join();
        throw;
    }
}

ThreadPool::~ThreadPool() {
    if (!usable()) {
        // The threads are not in this process, and one of them may have held the mutex: nothing of it can be taken
        // down, so it is left where it is.
        new std::vector<std::thread>(std::move(workers_));
        (void)shared_.release();
        return;
    }
    {
        const std::lock_guard<std::mutex> lock(shared_->mutex);
        shared_->stop.store(true);
    }
    shared_->started.notify_all();
    for (std::thread &thread : workers_) thread.join();
}

bool ThreadPool::usable() const { return threads_ == 1 || born_ == forks.load(std::memory_order_relaxed); }

// Takes and runs the next task; false if there is none to take.
bool ThreadPool::take_one(Shared &shared, int worker) {
    uint64_t seen = shared.tickets.load(std::memory_order_acquire);
    do {
        if ((seen & kLeft) == 0) return false;
    } while (!shared.tickets.compare_exchange_weak(seen, seen - 1));
    shared.body(shared.context, shared.tasks - static_cast<int64_t>(seen & kLeft), worker);
    if (shared.unfinished.fetch_sub(1) == 1 && shared.caller_asleep.load()) {
        const std::lock_guard<std::mutex> lock(shared.mutex);
        shared.finished.notify_one();
    }
    return true;
}

void ThreadPool::work(Shared &shared, int worker) {
    const Role role(&shared, worker);
    const auto called = [&shared] { return (shared.tickets.load() & kLeft) != 0 || shared.stop.load(); };
    while (true) {
        while (take_one(shared, worker)) {
        }
        if (!spin(called)) {
            std::unique_lock<std::mutex> lock(shared.mutex);
            shared.asleep.fetch_add(1);  // before the condition is looked at: the caller does the reverse
            shared.started.wait(lock, called);
            shared.asleep.fetch_sub(1);
        }
        if (shared.stop.load()) return;
    }
}

void ThreadPool::run_here(int64_t tasks, Body body, void *context, int worker) {
    for (int64_t task = 0; task < tasks; ++task) body(context, task, worker);
}

bool ThreadPool::run(int64_t tasks, Body body, void *context) {
    if (!usable() || tasks > kMostTasks) return false;
    if (tasks <= 0) return true;
    Shared &shared = *shared_;
    if (current_pool == &shared) {
        run_here(tasks, body, context, current_worker);
        return true;
    }
    const std::lock_guard<std::mutex> turn(turn_);
    const Role role(&shared, 0);
    if (threads_ == 1 || tasks == 1) {
        run_here(tasks, body, context, 0);
        return true;
    }
    shared.body = body;
    shared.context = context;
    shared.tasks = tasks;
    shared.unfinished.store(tasks);
    const uint64_t loop = (shared.tickets.load() >> 32) + 1;
    shared.tickets.store(loop << 32 | static_cast<uint64_t>(tasks));
    if (shared.asleep.load() > 0) {
        { const std::lock_guard<std::mutex> lock(shared.mutex); }
        shared.started.notify_all();
    }
    while (take_one(shared, 0)) {
    }
    const auto done = [&shared] { return shared.unfinished.load() == 0; };
    if (!spin(done)) {
        std::unique_lock<std::mutex> lock(shared.mutex);
        shared.caller_asleep.store(true);
        shared.finished.wait(lock, done);
        shared.caller_asleep.store(false);
    }
    return true;
}

}  // namespace radixrt

extern "C" {

// A pool of so many threads, the caller among them; null when the system refuses one.
radixrt::ThreadPool *radixrt_threads_new(int32_t threads) {
    try {
        return new radixrt::ThreadPool(threads);
    } catch (const std::system_error &) {
        return nullptr;
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void radixrt_threads_delete(radixrt::ThreadPool *pool) { delete pool; }

int32_t radixrt_threads_usable(const radixrt::ThreadPool *pool) { return pool->usable() ? 1 : 0; }

// Counts in runs[task] how often each task ran and notes in workers[task] who ran it; a task takes `pauses` steps,
// and every `nested`-th (0: none) runs a loop of two steps inside. For tests and for measuring what handing out a
// loop costs. 0 if the pool refused.
int32_t radixrt_threads_trace(radixrt::ThreadPool *pool, int64_t tasks, int64_t pauses, int64_t nested,
                              int32_t *runs, int32_t *workers) {
    return pool->parallel_for(tasks, [&](int64_t task, int worker) {
        for (int64_t i = 0; i < pauses; ++i) radixrt::pause();
        workers[task] = worker;
        if (nested == 0 || task % nested != 0) {
            ++runs[task];
            return;
        }
        pool->parallel_for(2, [&](int64_t inner, int inner_worker) {
            if (inner == 1 && inner_worker == worker) ++runs[task];
        });
    });
}

}  // extern "C"
