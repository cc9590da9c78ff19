// WorkerPool: the threads that drive a process's devices in lockstep, and the barrier they meet at.
//
//   WorkerPool pool(WorkerPool::DefaultWorkers());
//   pool.Run([&](int worker) { …; pool.barrier().Wait(); …; });   // the caller is worker 0
//
// Waiting spins for tens of microseconds, then yields, then sleeps in the kernel, so that a step on as many
// cores as workers does not pay for a wake-up at every barrier, and an idle pool does not burn the machine.
// If there are not enough cores, a thread that spins keeps the thread that it waits for from running. So no
// thread spins while the running pools of the process have more workers than the process has cores, and
// threads of an idle pool spin only until another pool runs. The kernel is asked for a wake-up only if a
// thread sleeps.
//
// A pool with as many workers as cores binds each of its threads to a core of its own, other than the
// creating thread's core; the system then need not find out that they belong on different cores. The caller's
// thread is never bound to a core. With fewer workers no thread is bound, because the system knows better
// which cores are free.
//
// In the child of a fork only the forking thread exists. A fork waits until no pool is in a Run; the first
// Run in the child then starts new threads.
//
// Libraries that bring threads of their own (OpenMP in oneDNN, OpenBLAS) are told to use one inside
// workers; the caller's OpenMP setting is restored when Run returns.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace meshwork {

// A number that threads wait for. Thread-safe.
class Signal {
 public:
  Signal() = default;
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  // As constructed. REQUIRES: nobody else uses it.
  void Reset();
  // Changes the number and wakes all waiting threads. A thread that sees the change also sees everything that
  // this thread wrote before.
  void Raise();
  // Returns once the number is not `old`. Spins while may_spin(), else yields, both for tens of microseconds
  // at most; then sleeps.
  template <typename F>
  void Await(uint32_t old, F&& may_spin);

 private:
  using Clock = std::chrono::steady_clock;

  // A little waiting, on the core or off it; true if the number has changed meanwhile.
  bool Spin(uint32_t old) const;
  bool Yield(uint32_t old) const;
  void Sleep(uint32_t old);

  alignas(64) std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

// A meeting point for a fixed number of threads, used again and again. After Wait, all threads see what any
// of them wrote before it. Thread-safe.
class Barrier {
 public:
  // REQUIRES: threads >= 1. `cores`: the number of cores for all threads of this process.
  Barrier(int threads, int cores) : threads_(threads), cores_(cores) {}
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Returns once every thread has called it as often as this one.
  void Wait();
  // As constructed. REQUIRES: nobody else uses it.
  void Reset();

 private:
  const int threads_, cores_;
  alignas(64) std::atomic<int> arrived_{0};
  Signal passed_;
};

class WorkerPool {
 public:
  // Starts workers - 1 threads; they live as long as the pool. With own_cores=false they are never bound to
  // cores.
  // REQUIRES: workers >= 1. Throws std::system_error if the system refuses a thread; if it refuses a core,
  // the thread runs unbound.
  explicit WorkerPool(int workers = DefaultWorkers(), bool own_cores = true);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // The cores this process may run on (its affinity mask), at least 1.
  static int DefaultWorkers();

  int num_workers() const { return num_workers_; }

  // Calls f(worker) once for each worker 0 … num_workers() - 1, each on its own thread, worker 0 on
  // the caller's; returns when all are done, and the caller then sees everything that they wrote. Calls from
  // several threads wait for each other. f must not throw, must not call Run and must not fork. In the child
  // of a fork the first call throws std::system_error if the system refuses a thread.
  void Run(const std::function<void(int worker)>& f);

  // Reserves the pool for `whom`, whose Runs wait for others; these must not need the same pool, or they
  // would wait for each other. The reservation lasts until the result, and all other results for the same
  // `whom`, are destroyed. Null: the pool is reserved for another one. Thread-safe.
  std::shared_ptr<const void> KeepFor(const void* whom);

  // Where the workers of a Run meet; every one of them must come.
  Barrier& barrier() { return barrier_; }

 private:
  void ThreadMain(int worker);
  void Start(bool own_cores);
  void Stop();
  // After a fork, in the child: the parent's threads are not in this process.
  void Restart();
  friend class Forks;

  const int num_workers_, cores_;
  Barrier barrier_;
  std::mutex run_mutex_;
  const std::function<void(int)>* work_ = nullptr;  // null tells the threads to leave
  Signal started_;                                  // counts Runs
  alignas(64) std::atomic<int> unfinished_{0};      // threads that are in the Run
  Signal finished_;                                 // raised by the last of them
  bool is_forked_ = false;                          // since its threads were started
  std::mutex keep_mutex_;
  const void* kept_for_ = nullptr;  // as long as somebody holds keeps_
  std::weak_ptr<const void> keeps_;
  std::vector<std::thread> threads_;
};

template <typename F>
void Signal::Await(uint32_t old, F&& may_spin) {
  // By the clock: the time of a turn differs tenfold between processors, and a yield may take milliseconds if
  // other processes want the core.
  constexpr std::chrono::microseconds kPatience(50);
  Clock::time_point end = Clock::time_point::max();
  for (;;) {
    if (may_spin() ? Spin(old) : Yield(old)) return;
    const Clock::time_point now = Clock::now();
    if (end == Clock::time_point::max()) end = now + kPatience;
    if (now >= end) return Sleep(old);
  }
}

}  // namespace meshwork
