// The memory of tensors: bytes that AllocateAligned gave to a thread and that are not freed yet. The binary replaces
// AllocateAligned by the linker (planned_test.cc).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

namespace meshwork {

class TensorMemory {
 public:
  void Add(int64_t bytes) {
    now_ += bytes;
    most_ = std::max<int64_t>(most_, now_);
  }
  int64_t now() const { return now_; }
  // The largest number of bytes at a time since the last ForgetMost.
  int64_t most() const { return most_; }
  void ForgetMost() { most_ = now_.load(); }

 private:
  std::atomic<int64_t> now_ = 0, most_ = 0;
};

// From now on counts what this thread allocates, whichever thread frees it.
std::shared_ptr<TensorMemory> CountTensorMemoryOfThread();

}  // namespace meshwork
