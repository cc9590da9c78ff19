#include "ops/kernels/library_threads.h"

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

// Throws std::bad_alloc where so much cannot be mapped.
void CheckCanMap(size_t bytes) {
  void* const probe = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) throw std::bad_alloc();
  munmap(probe, bytes);
}

// Threads call OpenBLAS at the same time, and each works in one of its buffers, which it keeps once they are
// mapped. So there must be as many as threads that call it.
void MapOpenBlasBuffers() {
  constexpr size_t kBuffer = size_t{128} << 20;  // BUFFER_SIZE of its builds for x86-64 and arm64
  static auto* const take = FindFunction<void*(int)>("blas_memory_alloc");
  static auto* const give = FindFunction<void(void*)>("blas_memory_free");
  if (take == nullptr || give == nullptr) return;
  static std::mutex mutex;
  static size_t threads = 0;
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<void*> buffers;
  const auto give_all = [&] {
    for (void* buffer : buffers) give(buffer);
  };
  try {
    buffers.reserve(threads + 1);
    while (buffers.size() < threads + 1) {
      CheckCanMap(kBuffer);
      buffers.push_back(take(0));
    }
  } catch (const std::bad_alloc&) {
    give_all();
    throw;
  }
  give_all();
  ++threads;
}

}  // namespace

void ReserveForOneDnn() {
  constexpr size_t kFirstCall = size_t{32} << 20;  // code that it generates, and what it packs operands in
  thread_local bool is_reserved = false;
  if (is_reserved) return;
  CheckCanMap(kFirstCall);
  is_reserved = true;
}

void ReserveForOpenBlas() {
  thread_local bool is_reserved = false;
  if (is_reserved) return;
  MapOpenBlasBuffers();
  is_reserved = true;
}

SingleThreadedLibraries::SingleThreadedLibraries() : before_(OpenMpThreads()) {
  if (before_ != 1) SetOpenMpThreads(1);
  SetOpenBlasThreadsOnce();
}

SingleThreadedLibraries::~SingleThreadedLibraries() {
  if (before_ != 1) SetOpenMpThreads(before_);
}

}  // namespace meshwork
