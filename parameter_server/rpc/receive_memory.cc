#include "meshwork/parameter_server/rpc/receive_memory.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "meshwork/base/fork.h"
#include "meshwork/runtime/tensor.h"

namespace meshwork {

struct ReceiveMemory::Idle {
  const int64_t max_bytes;
  const ForkMark made = {};  // a thread of a parent may have held the lock
  std::mutex mutex = {};
  int64_t bytes = 0;
  std::multimap<int64_t, std::shared_ptr<void>> buffers = {};  // by size
};

ReceiveMemory::ReceiveMemory(int64_t max_idle_bytes) : idle_(new Idle{.max_bytes = max_idle_bytes}) {}

std::shared_ptr<void> ReceiveMemory::Take(int64_t bytes) {
  if (bytes < kLeastKept || !idle_->made.is_here()) return AllocateAligned(bytes);
  std::shared_ptr<void> buffer;
  {
    const std::lock_guard lock(idle_->mutex);
    const auto found = idle_->buffers.find(bytes);
    if (found != idle_->buffers.end()) {
      buffer = std::move(found->second);
      idle_->buffers.erase(found);
      idle_->bytes -= bytes;
    }
  }
  if (buffer == nullptr) buffer = AllocateAligned(bytes);
  void* const data = buffer.get();
  return {data, [idle = std::weak_ptr<Idle>(idle_), bytes, buffer = std::move(buffer)](void*) mutable {
            const std::shared_ptr<Idle> alive = idle.lock();
            if (alive == nullptr || !alive->made.is_here()) return;
            const std::lock_guard lock(alive->mutex);
            if (alive->bytes + bytes > alive->max_bytes) return;
            alive->bytes += bytes;
            alive->buffers.emplace(bytes, std::move(buffer));
          }};
}

int64_t ReceiveMemory::idle_bytes() const {
  const std::lock_guard lock(idle_->mutex);
  return idle_->bytes;
}

}  // namespace meshwork
