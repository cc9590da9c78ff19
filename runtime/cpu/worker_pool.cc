#include "meshwork/runtime/cpu/worker_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "meshwork/base/check_border.h"
#include "meshwork/base/cores.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/blas/library_threads.h"

namespace meshwork {
namespace {

constexpr int kSpins = 16;  // about a microsecond

// Workers of all pools of this process that are in a Run.
std::atomic<int> running_workers{0};
// The pool that has begun a Run last.
std::atomic<const WorkerPool*> last_pool{nullptr};

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// All pools of the process. A fork waits until none of them is in the middle of a Run.
class Forks {
 public:
  static void Enter(WorkerPool* pool) {
    static const int registered = pthread_atfork(Prepare, InParent, InChild);
    static_cast<void>(registered);
    const std::lock_guard<std::mutex> lock(All().mutex);
    All().pools.push_back(pool);
  }
  static void Leave(WorkerPool* pool) {
    const std::lock_guard<std::mutex> lock(All().mutex);
    std::erase(All().pools, pool);
  }

 private:
  struct Pools {
    std::mutex mutex;
    std::vector<WorkerPool*> pools;
  };
  static Pools& All() {
    static auto* const all = new Pools;  // for threads that outlive main
    return *all;
  }
  static void Prepare() {
    All().mutex.lock();
    for (WorkerPool* pool : All().pools) {
      pool->run_mutex_.lock();
      pool->keep_mutex_.lock();
    }
  }
  static void InParent() {
    for (WorkerPool* pool : All().pools) {
      pool->keep_mutex_.unlock();
      pool->run_mutex_.unlock();
    }
    All().mutex.unlock();
  }
  static void InChild() {
    for (WorkerPool* pool : All().pools) {
      pool->is_forked_ = true;
      pool->keep_mutex_.unlock();
      pool->run_mutex_.unlock();
    }
    All().mutex.unlock();
  }
};

namespace {

void BindTo(std::thread& thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
}

}  // namespace

void Signal::Raise() {
  // A thread that sleeps has counted itself as a sleeper before it read the number for the last time. So
  // either it sees this change, or this thread sees the sleeper.
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) value_.notify_all();
}

void Signal::Reset() {
  value_.store(0, std::memory_order_relaxed);
  sleepers_.store(0, std::memory_order_relaxed);
}

bool Signal::Spin(uint32_t old) const {
  for (int i = 0; i < kSpins; ++i) {
    if (value() != old) return true;
    Pause();
  }
  return false;
}

bool Signal::Yield(uint32_t old) const {
  if (value() != old) return true;
  std::this_thread::yield();
  return false;
}

void Signal::Sleep(uint32_t old) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (value_.load(std::memory_order_seq_cst) == old) value_.wait(old, std::memory_order_seq_cst);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Barrier::Reset() {
  arrived_.store(0, std::memory_order_relaxed);
  passed_.Reset();
}

void Barrier::Wait() {
  const uint32_t before = passed_.value();
  // Each arrival also publishes what the thread wrote; the last one has seen all.
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads_) {
    return passed_.Await(before, [this] {
      return threads_ <= cores_ && running_workers.load(std::memory_order_relaxed) <= cores_;
    });
  }
  arrived_.store(0, std::memory_order_relaxed);
  passed_.Raise();
}

int WorkerPool::DefaultWorkers() {
  const auto cores = static_cast<int>(UsableCores().size());
  return std::max(1, cores > 0 ? cores : static_cast<int>(std::thread::hardware_concurrency()));
}

WorkerPool::WorkerPool(int workers, bool own_cores)
    : num_workers_(workers), cores_(DefaultWorkers()), barrier_(workers, cores_) {
  MESHWORK_CHECK(workers >= 1, "{} workers", workers);
  Start(own_cores);
  Forks::Enter(this);
}

void WorkerPool::Start(bool own_cores) {
  std::vector<int> cores = UsableCores();
  // The creator is likely to be the caller: it keeps its core.
  const auto mine = std::find(cores.begin(), cores.end(), sched_getcpu());
  if (mine != cores.end()) std::rotate(cores.begin(), mine, cores.end());
  try {
    for (int worker = 1; worker < num_workers_; ++worker) {
      threads_.emplace_back([this, worker] { ThreadMain(worker); });
      if (own_cores && cores.size() == static_cast<size_t>(num_workers_))
        BindTo(threads_.back(), cores[worker]);
    }
  } catch (...) {  // the system has no more threads: those that started must end before the error goes on
    Stop();
    throw;
  }
}

WorkerPool::~WorkerPool() {
  Forks::Leave(this);
  if (is_forked_) new std::vector<std::thread>(std::move(threads_));  // as in Restart
  else Stop();
}

void WorkerPool::Restart() {
  // These are the parent's threads: here they must be neither joined nor detached.
  new std::vector<std::thread>(std::move(threads_));
  threads_.clear();
  started_.Reset();
  finished_.Reset();
  barrier_.Reset();
  Start(/*own_cores=*/false);  // the parent's threads have them
  is_forked_ = false;
}

void WorkerPool::Stop() {
  work_ = nullptr;
  started_.Raise();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::shared_ptr<const void> WorkerPool::KeepFor(const void* whom) {
  const std::lock_guard lock(keep_mutex_);
  std::shared_ptr<const void> keeps = keeps_.lock();
  if (keeps == nullptr) {
    keeps = std::make_shared<char>();
    keeps_ = keeps;
    kept_for_ = whom;
  }
  return kept_for_ == whom ? keeps : nullptr;
}

void WorkerPool::Run(const std::function<void(int)>& f) {
  const std::lock_guard<std::mutex> lock(run_mutex_);
  if (is_forked_) [[unlikely]]
    Restart();
  const SingleThreadedLibraries single;
  const CheckBorder none(/*open=*/false);  // the other threads are at work meanwhile
  running_workers.fetch_add(num_workers_, std::memory_order_relaxed);
  if (last_pool.load(std::memory_order_relaxed) != this) last_pool.store(this, std::memory_order_relaxed);
  work_ = &f;
  unfinished_.store(num_workers_ - 1, std::memory_order_relaxed);
  const uint32_t before = finished_.value();
  started_.Raise();
  f(0);
  if (num_workers_ > 1)
    finished_.Await(before, [this] { return running_workers.load(std::memory_order_relaxed) <= cores_; });
  running_workers.fetch_sub(num_workers_, std::memory_order_relaxed);
}

void WorkerPool::ThreadMain(int worker) {
  const SingleThreadedLibraries single;
  for (uint32_t seen = 0;; ++seen) {
    started_.Await(
        seen, [this] { return num_workers_ <= cores_ && last_pool.load(std::memory_order_relaxed) == this; });
    if (work_ == nullptr) return;
    (*work_)(worker);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) finished_.Raise();
  }
}

}  // namespace meshwork
