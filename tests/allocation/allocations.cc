#include "allocation/allocations.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

// The functions of glibc, under the names that it offers to programs that replace malloc.
extern "C" {
void* __libc_malloc(size_t size) noexcept;
void* __libc_calloc(size_t count, size_t size) noexcept;
void* __libc_realloc(void* p, size_t size) noexcept;
void* __libc_memalign(size_t alignment, size_t size) noexcept;
void __libc_free(void* p) noexcept;
}

namespace meshwork {
namespace {

constexpr int kMaxFrames = 64;

std::atomic<bool> counting = false;
std::atomic<int64_t> num_ours = 0, num_libraries = 0;
std::array<void*, kMaxFrames> first_stack;  // the stack of the first allocation of ours
int first_depth = 0;
// True while this thread reads a stack, which may allocate.
thread_local bool reading = false;

bool IsKernelLibrary(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path = info.dli_fname;
  const std::string_view file = path.substr(path.find_last_of('/') + 1);
  for (const std::string_view name : {"libdnnl", "libopenblas", "libblas", "libgomp", "libomp", "libiomp"})
    if (file.substr(0, name.size()) == name) return true;
  return false;
}

void CountAllocation() {
  if (!counting.load(std::memory_order_relaxed) || reading) return;
  reading = true;
  std::array<void*, kMaxFrames> stack;
  const int depth = backtrace(stack.data(), kMaxFrames);
  bool is_library = false;
  for (int i = 0; i < depth && !is_library; ++i) is_library = IsKernelLibrary(stack[i]);
  if (is_library) {
    ++num_libraries;
  } else if (num_ours++ == 0) {
    first_stack = stack;
    first_depth = depth;
  }
  reading = false;
}

}  // namespace

CountAllocations::CountAllocations() {
  std::array<void*, 1> frame;
  backtrace(frame.data(), 1);  // loads the unwinder
  num_ours = num_libraries = 0;
  first_depth = 0;
  counting = true;
}

CountAllocations::~CountAllocations() { counting = false; }

int64_t CountAllocations::ours() const { return num_ours; }
int64_t CountAllocations::libraries() const { return num_libraries; }

std::string CountAllocations::FirstOfOurs() const {
  counting = false;
  std::string text;
  char** const names = backtrace_symbols(first_stack.data(), first_depth);
  for (int i = 0; i < first_depth; ++i) text += std::string(names[i]) + "\n";
  std::free(names);
  return text;
}

}  // namespace meshwork

extern "C" {

void* malloc(size_t size) noexcept {
  meshwork::CountAllocation();
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) noexcept {
  meshwork::CountAllocation();
  return __libc_calloc(count, size);
}

void* realloc(void* p, size_t size) noexcept {
  meshwork::CountAllocation();
  return __libc_realloc(p, size);
}

void* memalign(size_t alignment, size_t size) noexcept {
  meshwork::CountAllocation();
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) noexcept {
  meshwork::CountAllocation();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** p, size_t alignment, size_t size) noexcept {
  meshwork::CountAllocation();
  *p = __libc_memalign(alignment, size);
  return *p == nullptr ? ENOMEM : 0;
}

void free(void* p) noexcept { __libc_free(p); }

}  // extern "C"
