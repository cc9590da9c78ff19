#include "meshwork/train/data/buffer_pool.h"

#include <utility>

#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork::internal {

std::shared_ptr<void> BufferPool::Take(int64_t bytes) {
  std::shared_ptr<void> buffer = TakeIdle(bytes);
  if (buffer == nullptr) buffer = AllocateAligned(bytes);
  void* data = buffer.get();
  return {data, [pool = weak_from_this(), bytes, buffer = std::move(buffer)](void*) mutable {
            if (const std::shared_ptr<BufferPool> alive = pool.lock())
              alive->Return(bytes, std::move(buffer));
          }};
}

std::shared_ptr<void> BufferPool::TakeIdle(int64_t bytes) {
  if (!made_.is_here()) return nullptr;  // a thread of a parent may have held the lock
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<void>>& idle = idle_[bytes];
  if (idle.empty()) return nullptr;
  std::shared_ptr<void> buffer = std::move(idle.back());
  idle.pop_back();
  return buffer;
}

void BufferPool::Return(int64_t bytes, std::shared_ptr<void> buffer) {
  if (!made_.is_here()) return;
  std::lock_guard lock(mutex_);
  idle_[bytes].push_back(std::move(buffer));
}

}  // namespace meshwork::internal
