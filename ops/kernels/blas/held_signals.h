// Keeps signals away from code that moves the stack pointer off the stack.
#pragma once

#include <cstdint>

namespace meshwork {

// While an object lives, signals of the calling thread are blocked. A signal that arrives meanwhile is delivered when
// the thread's outermost object ends, or to another thread. Faults of the thread itself are delivered at once.
//
// oneDNN's products on x86-64, up to version 3.11, let the stack pointer point to the end of a buffer on the heap if k
// is large (https://github.com/uxlfoundation/oneDNN/issues/4845). The frame of any signal handler, of a Ctrl-C or of a
// profiler, would overwrite the memory before that buffer. A pair of system calls costs 0.3 µs; no call is made if this
// process's oneDNN does not have the bug.
class HeldSignals {
 public:
  HeldSignals();
  // For a product [m,k] · [k,n]. Holds no signals if k is at most 32: then the stack pointer stays on the stack.
  explicit HeldSignals(int64_t k);
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  const bool holds_;
};

}  // namespace meshwork
