// Keeps signals away from code that moves the stack pointer off the stack.
#pragma once

#include <cstdint>

namespace meshwork {

// While an object lives, the calling thread takes no signal; those that come meanwhile are taken when the outermost
// object of the thread ends, or by another thread. Faults, which are the thread's own, are taken at once.
//
// oneDNN's products on x86-64, up to version 3.11, let the stack pointer point to the end of a buffer on the heap where k
// is long (https://github.com/uxlfoundation/oneDNN/issues/4845). The frame of a signal would be written over what
// lies before that buffer, by the handler of a Ctrl-C as by a profiler's. A pair of system calls costs 0.3 µs; nothing is
// called where the oneDNN of this process needs no such care.
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
