#include "ops/kernels/library_threads.h"

#include <dlfcn.h>

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

}  // namespace

SingleThreadedLibraries::SingleThreadedLibraries() : before_(OpenMpThreads()) {
  if (before_ != 1) SetOpenMpThreads(1);
  SetOpenBlasThreadsOnce();
}

SingleThreadedLibraries::~SingleThreadedLibraries() {
  if (before_ != 1) SetOpenMpThreads(before_);
}

}  // namespace meshwork
