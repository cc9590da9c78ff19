#include "runtime/worker_pool.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>

#include "base/status.h"

namespace meshwork {
namespace {

constexpr int kSpins = 500;  // tens of microseconds
constexpr int kYields = 16;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A function of a library that may or may not be in this process.
template <typename F>
F* FindFunction(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

void SetOpenMpThreads(int threads) {
  static auto* const set = FindFunction<void(int)>("omp_set_num_threads");
  if (set != nullptr) set(threads);
}

int OpenMpThreads() {
  static auto* const get = FindFunction<int()>("omp_get_max_threads");
  return get == nullptr ? 1 : get();
}

void SetOpenBlasThreadsOnce() {
  static const bool done = [] {
    auto* const set = FindFunction<void(int)>("openblas_set_num_threads");
    if (set != nullptr) set(1);
    return true;
  }();
  static_cast<void>(done);
}

// OpenMP's thread count is a setting of each thread; the caller gets its own back.
class SingleThreadedLibraries {
 public:
  SingleThreadedLibraries() : before_(OpenMpThreads()) {
    if (before_ != 1) SetOpenMpThreads(1);
    SetOpenBlasThreadsOnce();
  }
  ~SingleThreadedLibraries() {
    if (before_ != 1) SetOpenMpThreads(before_);
  }

 private:
  const int before_;
};

}  // namespace

void AwaitChange(const std::atomic<uint32_t>& word, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    std::this_thread::yield();
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

void Barrier::Wait() {
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  // Each arrival also publishes what the thread wrote; the last one has seen all.
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads_) {
    return AwaitChange(generation_, generation, spins_);
  }
  arrived_.store(0, std::memory_order_relaxed);
  generation_.store(generation + 1, std::memory_order_release);
  generation_.notify_all();
}

int WorkerPool::DefaultWorkers() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// A thread that spins keeps the one it waits for from running where there are not cores for both.
WorkerPool::WorkerPool(int workers)
    : num_workers_(workers),
      spins_(workers <= DefaultWorkers() ? kSpins : 0),
      barrier_(workers, spins_),
      done_(workers, spins_) {
  MESHWORK_CHECK(workers >= 1, "{} workers", workers);
  try {
    for (int worker = 1; worker < workers; ++worker)
      threads_.emplace_back([this, worker] { ThreadMain(worker); });
  } catch (...) {  // the system has no more threads: those that started must end before the error goes on
    Stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { Stop(); }

void WorkerPool::Stop() {
  work_ = nullptr;
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Run(const std::function<void(int)>& f) {
  const std::lock_guard<std::mutex> lock(run_mutex_);
  const SingleThreadedLibraries single;
  work_ = &f;
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  f(0);
  done_.Wait();
}

void WorkerPool::ThreadMain(int worker) {
  const SingleThreadedLibraries single;
  for (uint32_t seen = 0;; ++seen) {
    AwaitChange(started_, seen, spins_);
    if (work_ == nullptr) return;
    (*work_)(worker);
    done_.Wait();
  }
}

}  // namespace meshwork
