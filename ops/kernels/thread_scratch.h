// Memory of a thread, in which kernels work besides their results.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwork {

// At least `bytes` bytes, 64-byte aligned, which belong to the calling thread until its next call. The memory
// grows, in the first step, to the largest size that a kernel asks for, and is kept.
std::byte* ThreadScratch(int64_t bytes);

// Several pieces of ThreadScratch, each 64-byte aligned.
class ScratchPieces {
 public:
  static int64_t Padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  // REQUIRES: the Padded sizes of all pieces taken add up to at most `bytes`.
  explicit ScratchPieces(int64_t bytes) : next_(ThreadScratch(bytes)) {}
  template <typename T>
  T* Take(int64_t count) {
    T* piece = static_cast<T*>(static_cast<void*>(next_));
    next_ += Padded(count * static_cast<int64_t>(sizeof(T)));
    return piece;
  }

 private:
  std::byte* next_;
};

}  // namespace meshwork
