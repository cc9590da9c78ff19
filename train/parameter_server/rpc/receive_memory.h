// ReceiveMemory: memory for tensors that arrive, used again when they are gone.
//
// The system clears each page of fresh memory first, which takes as long as copying the bytes that arrive there.
//
// Thread-safe; tensors may outlive it.
#pragma once

#include <cstdint>
#include <memory>

namespace meshwork {

class ReceiveMemory {
 public:
  // Smaller buffers are not kept. The kept ones have at most `max_idle_bytes` together; the smallest ones are freed
  // first.
  static constexpr int64_t kLeastKept = int64_t{1} << 20;
  explicit ReceiveMemory(int64_t max_idle_bytes = int64_t{1} << 29);

  // A buffer of at least so many bytes, and a quarter more at most; 64-byte aligned. It may hold data of an earlier
  // use. Throws std::bad_alloc if there is not enough memory.
  std::shared_ptr<void> Take(int64_t bytes);
  // The bytes of the buffers that wait to be used again.
  int64_t idle_bytes() const;

 private:
  struct Idle;
  const std::shared_ptr<Idle> idle_;
};

}  // namespace meshwork
