// The arguments of a kernel's launch, in the form that cuLaunchKernel takes.
//
//   KernelArguments arguments;
//   arguments.Add(x.address());
//   arguments.Add(int64_t{n});      // each of exactly the kernel's type
//
// The driver knows the sizes from the kernel. A simulated device (tests/support/simulated_cuda.h) does not, and copies
// the values when the kernel is launched: so the size stands before each value, and a null pointer behind the last.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

namespace meshwork {

class KernelArguments {
 public:
  KernelArguments() = default;

  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    const size_t at = words_.size() * kAlignment;
    words_.resize(words_.size() + 1 + (sizeof(T) + kAlignment - 1) / kAlignment);
    words_[at / kAlignment].size = sizeof(T);
    std::memcpy(&words_[at / kAlignment + 1], &value, sizeof(T));
    offsets_.push_back(at / kAlignment + 1);
  }
  size_t size() const { return offsets_.size(); }

  // Valid until the next Add, and as long as this object lives.
  void** pointers() {
    pointers_.clear();
    for (const size_t offset : offsets_) pointers_.push_back(&words_[offset]);
    pointers_.push_back(nullptr);
    return pointers_.data();
  }
  // The size of an argument that pointers() gave.
  static size_t SizeOf(const void* argument) { return (static_cast<const Word*>(argument) - 1)->size; }

 private:
  static constexpr size_t kAlignment = 16;
  struct alignas(kAlignment) Word {
    size_t size;
    size_t unused;
  };

  std::vector<Word> words_;
  std::vector<size_t> offsets_;  // of the values, in words
  std::vector<void*> pointers_;
};

}  // namespace meshwork
