// Memory of a thread that kernels work in beside their results.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwork {

// At least so many bytes, 64-byte aligned, the calling thread's until it asks again. It grows to the largest
// that any kernel asks for, in the first step, and is kept.
std::byte* ThreadScratch(int64_t bytes);

// Several pieces of it, each 64-byte aligned.
class ScratchPieces {
 public:
  static int64_t Padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  // REQUIRES: no more is taken than `bytes`, where each piece counts padded.
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
