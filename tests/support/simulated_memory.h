// The memory of simulated GPUs, and pinned memory (simulated_cuda.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

// The device of an allocation; kPinned for pinned memory.
inline constexpr int kPinned = -1;

class SimulatedMemory {
 public:
  explicit SimulatedMemory(std::function<void(std::string)> find);
  SimulatedMemory(const SimulatedMemory&) = delete;
  SimulatedMemory& operator=(const SimulatedMemory&) = delete;
  ~SimulatedMemory();

  // Memory of devices can be touched only between Open and Close; at other times a host that touches it ends with a
  // signal. Not under sanitizers, which watch the bounds of allocations. Functions that touch the memory open it.
  void Open() {
    if (!is_open_) Protect(/*is_open=*/true);
  }
  void Close() {
    if (is_open_) Protect(/*is_open=*/false);
  }

  // Returns the address. Memory that is allocated in the order of a stream exists only after Begin.
  uintptr_t Allocate(int device, int64_t bytes, bool begins_later);
  void Begin(uintptr_t address);
  // Whether `address` is that of an allocation that nobody has freed. From then on, no more work with it may
  // be enqueued. Reports a second free.
  bool Leave(uintptr_t address, bool is_pinned);
  // Ends the allocation.
  void Free(uintptr_t address);

  // Whether work with these bytes may be enqueued, or done: they lie in one allocation of `device`. If not,
  // reports the reason. `who`: "a copy from GPU 0".
  bool Check(std::string_view who, int device, uintptr_t address, int64_t bytes, bool is_enqueued) const;
  // Whether an existing or freed allocation contains the address; sets the device of the allocation.
  bool Holds(uintptr_t address, int& device) const;

  int64_t bytes_in_use(int device) const;
  // Reports allocations that nobody has freed, and writes to freed memory.
  void ReportLeaks();

 private:
  enum class State { kComing, kThere, kFreed };
  struct Allocation {
    int device = 0;
    int64_t bytes = 0;
    State state = State::kThere;
    bool is_left = false;
    bool is_reported = false;
    int64_t number = 0;
    std::unique_ptr<std::byte, void (*)(void*)> storage{nullptr, nullptr};
  };

  void Protect(bool is_open);
  // `bytes` of the region, rounded up to multiples of the guard; null: it is full, or there is none.
  std::byte* TakeFromRegion(int64_t bytes);
  // Gives the pages of an allocation back, if it is in the region.
  void Discard(Allocation& allocation);
  std::string NameOf(const Allocation& allocation) const;
  const std::pair<const uintptr_t, Allocation>* Find(uintptr_t address) const;
  void ReportWritesAfterFree(Allocation& allocation) const;

  const std::function<void(std::string)> find_;
  // Memory of devices comes from a range of addresses, and no address is used twice. Null: from the heap.
  std::byte* region_ = nullptr;
  int64_t region_used_ = 0;
  bool is_open_ = false;
  std::map<uintptr_t, Allocation> allocations_;  // by address
  std::map<int, int64_t> in_use_;
  std::deque<uintptr_t> freed_;  // oldest first; kept so that their addresses stay theirs
  int64_t freed_bytes_ = 0;
  int64_t next_number_ = 0;
};

}  // namespace meshwork
