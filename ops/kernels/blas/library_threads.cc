#include "meshwork/ops/kernels/blas/library_threads.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

namespace meshwork {
namespace {

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

// Throws std::bad_alloc if `bytes` bytes cannot be mapped.
void CheckCanMap(size_t bytes) {
  void* const probe = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) throw std::bad_alloc();
  munmap(probe, bytes);
}

// A thread that constructs it may call OpenBLAS until the thread ends. Each thread that is in a call needs a
// buffer of its own. OpenBLAS keeps the buffers that it mapped, so there must be as many buffers as calling
// threads.
class OpenBlasCaller {
 public:
  // Throws std::bad_alloc where there is no memory for one more buffer.
  OpenBlasCaller() {
    const std::lock_guard<std::mutex> lock(Mutex());
    if (threads_ == mapped_) {
      Map(mapped_ + 1);
      ++mapped_;
    }
    ++threads_;
  }
  ~OpenBlasCaller() {
    const std::lock_guard<std::mutex> lock(Mutex());
    --threads_;
  }

 private:
  static std::mutex& Mutex() {
    static auto* const mutex = new std::mutex;  // threads may end after statics are gone
    return *mutex;
  }

  static void Map(size_t count) {
    constexpr size_t kBuffer = size_t{128} << 20;  // BUFFER_SIZE of its builds for x86-64 and arm64
    static auto* const take = FindFunction<void*(int)>("blas_memory_alloc");
    static auto* const give = FindFunction<void(void*)>("blas_memory_free");
    if (take == nullptr || give == nullptr) return;
    std::vector<void*> buffers;
    buffers.reserve(count);
    const auto give_all = [&] {
      for (void* buffer : buffers) give(buffer);
    };
    try {
      while (buffers.size() < count) {
        CheckCanMap(kBuffer);
        void* const buffer = take(0);
        if (buffer == nullptr) throw std::bad_alloc();  // it has room for some hundred
        buffers.push_back(buffer);
      }
    } catch (const std::bad_alloc&) {
      give_all();
      throw;
    }
    give_all();
  }

  static size_t threads_, mapped_;  // that live; the most that ever lived at once
};

size_t OpenBlasCaller::threads_ = 0;
size_t OpenBlasCaller::mapped_ = 0;

}  // namespace

void ReserveForOneDnn() {
  constexpr size_t kFirstCall = size_t{32} << 20;  // code that it generates, and what it packs operands in
  thread_local bool is_reserved = false;
  if (is_reserved) return;
  CheckCanMap(kFirstCall);
  is_reserved = true;
}

void ReserveForOpenBlas() { thread_local const OpenBlasCaller caller; }

SingleThreadedLibraries::SingleThreadedLibraries() : before_(OpenMpThreads()) {
  if (before_ != 1) SetOpenMpThreads(1);
  SetOpenBlasThreadsOnce();
}

SingleThreadedLibraries::~SingleThreadedLibraries() {
  if (before_ != 1) SetOpenMpThreads(before_);
}

}  // namespace meshwork
