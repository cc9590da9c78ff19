// WorkerPool: the threads that drive a process's devices in lockstep, and the barrier they meet at.
//
//   WorkerPool pool(WorkerPool::DefaultWorkers());
//   pool.Run([&](int worker) { …; pool.barrier().Wait(); …; });   // the caller is worker 0
//
// Waiting spins for a few microseconds, then yields, then sleeps in the kernel, so that a step on
// as many cores as workers does not pay for a wake-up at every barrier, and a pool larger than the
// machine, or an idle one, does not burn it.
//
// Libraries that bring threads of their own (OpenMP in oneDNN, OpenBLAS) are told to use one inside
// workers; the caller's OpenMP setting is restored when Run returns.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace meshwork {

// A meeting point for a fixed number of threads, used again and again. What any of them wrote before
// Wait is seen by all after it. Thread-safe.
class Barrier {
 public:
  // REQUIRES: threads >= 1. `spins`: turns of waiting before the thread yields.
  Barrier(int threads, int spins) : threads_(threads), spins_(spins) {}
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Returns once every thread has called it as often as this one.
  void Wait();

 private:
  const int threads_;
  const int spins_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
};

// Blocks until `word` differs from `old`, with acquire ordering: spins, yields, then sleeps.
// Whoever changes the word calls word.notify_all().
void AwaitChange(const std::atomic<uint32_t>& word, uint32_t old, int spins);

class WorkerPool {
 public:
  // REQUIRES: workers >= 1. Starts workers - 1 threads; they live as long as the pool. Throws
  // std::system_error where the system refuses a thread.
  explicit WorkerPool(int workers = DefaultWorkers());
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // The cores this process may run on (its affinity mask), at least 1.
  static int DefaultWorkers();

  int num_workers() const { return num_workers_; }

  // Calls f(worker) once for each worker 0 … num_workers() - 1, each on its own thread, worker 0 on
  // the caller's; returns when all are done, and then sees all they wrote. Calls from several
  // threads wait for each other. f must not throw and must not call Run.
  void Run(const std::function<void(int worker)>& f);

  // Where the workers of a Run meet; every one of them must come.
  Barrier& barrier() { return barrier_; }

 private:
  void ThreadMain(int worker);
  void Stop();

  const int num_workers_;
  const int spins_;
  Barrier barrier_;
  std::mutex run_mutex_;
  const std::function<void(int)>* work_ = nullptr;  // null tells the threads to leave
  alignas(64) std::atomic<uint32_t> started_{0};    // counts Runs
  Barrier done_;
  std::vector<std::thread> threads_;
};

}  // namespace meshwork
