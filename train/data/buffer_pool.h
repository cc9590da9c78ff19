// BufferPool: memory for batches. The caller may keep each batch for as long as it likes.
//
//   std::shared_ptr<BufferPool> pool(new BufferPool, DeleteUnlessForked());
//   Tensor batch(type, pool->Take(type.bytes()));
//
// A buffer comes back when the last tensor over it is gone, to be filled again: after the first few batches a walk
// allocates no more. Thread-safe; buffers may outlive the pool.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "meshwork/base/fork.h"

namespace meshwork::internal {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // A buffer of at least so many bytes. It may hold data of an earlier use.
  std::shared_ptr<void> Take(int64_t bytes);

 private:
  std::shared_ptr<void> TakeIdle(int64_t bytes);
  void Return(int64_t bytes, std::shared_ptr<void> buffer);

  const ForkMark made_;
  std::mutex mutex_;
  std::map<int64_t, std::vector<std::shared_ptr<void>>> idle_;  // by size
};

}  // namespace meshwork::internal
