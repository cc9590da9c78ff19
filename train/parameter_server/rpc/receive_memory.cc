#include "meshwork/train/parameter_server/rpc/receive_memory.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "meshwork/base/fork.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {
namespace {

constexpr int64_t kMostWasted = 4;  // a buffer is larger than asked for by one part in four at most

}  // namespace

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
  int64_t size = bytes;
  {
    const std::lock_guard lock(idle_->mutex);
    const auto found = idle_->buffers.lower_bound(bytes);
    if (found != idle_->buffers.end() && found->first - bytes <= bytes / kMostWasted) {
      size = found->first;
      buffer = std::move(found->second);
      idle_->buffers.erase(found);
      idle_->bytes -= size;
    }
  }
  if (buffer == nullptr) buffer = AllocateAligned(size);
  void* const data = buffer.get();
  return {data, [idle = std::weak_ptr<Idle>(idle_), size, buffer = std::move(buffer)](void*) mutable {
            const std::shared_ptr<Idle> alive = idle.lock();
            if (alive == nullptr || !alive->made.is_here() || size > alive->max_bytes) return;
            std::vector<std::shared_ptr<void>> freed;  // behind the lock
            const std::lock_guard lock(alive->mutex);
            while (alive->bytes + size > alive->max_bytes) {
              const auto smallest = alive->buffers.begin();
              alive->bytes -= smallest->first;
              freed.push_back(std::move(smallest->second));
              alive->buffers.erase(smallest);
            }
            alive->bytes += size;
            alive->buffers.emplace(size, std::move(buffer));
          }};
}

int64_t ReceiveMemory::idle_bytes() const {
  const std::lock_guard lock(idle_->mutex);
  return idle_->bytes;
}

}  // namespace meshwork
