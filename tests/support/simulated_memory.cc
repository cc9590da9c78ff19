#include "support/simulated_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fmt/format.h"

namespace meshwork {
namespace {

constexpr int64_t kGuard = 256, kKept = int64_t{64} << 20;
constexpr int64_t kRegion = int64_t{1} << 36, kPage = 4096;
#if defined(MESHWORK_ONE_CPU_LEVEL)  // of builds for sanitizers
constexpr bool kMayProtect = false;
#else
constexpr bool kMayProtect = true;
#endif
constexpr int kFresh = 0xFF, kPoison = 0xDD, kGuardByte = 0xAB;

bool IsFilled(const std::byte* begin, int64_t bytes, int value) {
  return std::all_of(begin, begin + bytes, [value](std::byte b) { return b == std::byte(value); });
}

}  // namespace

SimulatedMemory::SimulatedMemory(std::function<void(std::string)> find) : find_(std::move(find)) {
  if (!kMayProtect) return;
  void* const region = mmap(nullptr, static_cast<size_t>(kRegion), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region != MAP_FAILED) region_ = static_cast<std::byte*>(region);
}

SimulatedMemory::~SimulatedMemory() {
  allocations_.clear();
  if (region_ != nullptr) munmap(region_, static_cast<size_t>(kRegion));
}

void SimulatedMemory::Protect(bool is_open) {
  is_open_ = is_open;
  if (region_used_ == 0) return;
  const int64_t used = (region_used_ + kPage - 1) / kPage * kPage;
  const int failed =
      mprotect(region_, static_cast<size_t>(used), is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
  if (failed != 0) find_("mprotect has failed.");
}

std::byte* SimulatedMemory::TakeFromRegion(int64_t bytes) {
  if (region_ == nullptr || bytes > kRegion - region_used_) return nullptr;
  std::byte* const taken = region_ + region_used_;
  region_used_ += bytes;
  Protect(/*is_open=*/true);  // it has grown
  return taken;
}

void SimulatedMemory::Discard(Allocation& allocation) {
  const int64_t first = allocation.storage.get() - region_, end = first + 2 * kGuard + allocation.bytes;
  if (region_ == nullptr || first < 0 || end > region_used_) return;
  const int64_t first_page = (first + kPage - 1) / kPage * kPage, end_page = end / kPage * kPage;
  if (first_page < end_page)
    madvise(region_ + first_page, static_cast<size_t>(end_page - first_page), MADV_DONTNEED);
}

std::string SimulatedMemory::NameOf(const Allocation& allocation) const {
  const std::string where =
      allocation.device == kPinned ? "pinned memory" : fmt::format("memory of GPU {}", allocation.device);
  return fmt::format("allocation {} ({} bytes, {})", allocation.number, allocation.bytes, where);
}

uintptr_t SimulatedMemory::Allocate(int device, int64_t bytes, bool begins_later) {
  const int64_t whole = (bytes + 2 * kGuard + kGuard - 1) / kGuard * kGuard;
  std::byte* storage = device == kPinned ? nullptr : TakeFromRegion(whole);
  const bool is_of_heap = storage == nullptr;
  if (is_of_heap) storage = static_cast<std::byte*>(std::aligned_alloc(kGuard, static_cast<size_t>(whole)));
  std::memset(storage, kGuardByte, static_cast<size_t>(whole));
  std::memset(storage + kGuard, kFresh, static_cast<size_t>(bytes));
  const auto address = reinterpret_cast<uintptr_t>(storage + kGuard);
  Allocation& allocation = allocations_[address];
  allocation.device = device;
  allocation.bytes = bytes;
  allocation.state = begins_later ? State::kComing : State::kThere;
  allocation.number = ++next_number_;
  allocation.storage = {storage, is_of_heap ? std::free : [](void*) {}};
  in_use_[device] += bytes;
  return address;
}

void SimulatedMemory::Begin(uintptr_t address) { allocations_.at(address).state = State::kThere; }

bool SimulatedMemory::Leave(uintptr_t address, bool is_pinned) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || (found->second.device == kPinned) != is_pinned) return false;
  if (found->second.is_left) {
    find_(fmt::format("{} is freed twice.", NameOf(found->second)));
    return false;
  }
  found->second.is_left = true;
  return true;
}

void SimulatedMemory::Free(uintptr_t address) {
  Open();
  Allocation& allocation = allocations_.at(address);
  std::byte* const begin = allocation.storage.get() + kGuard;
  if (!IsFilled(begin - kGuard, kGuard, kGuardByte))
    find_(fmt::format("something has written before {}.", NameOf(allocation)));
  if (!IsFilled(begin + allocation.bytes, kGuard, kGuardByte))
    find_(fmt::format("something has written behind {}.", NameOf(allocation)));
  std::memset(begin, kPoison, static_cast<size_t>(allocation.bytes));
  allocation.state = State::kFreed;
  in_use_[allocation.device] -= allocation.bytes;
  freed_.push_back(address);
  freed_bytes_ += allocation.bytes;
  while (freed_bytes_ > kKept && freed_.size() > 1) {
    Allocation& oldest = allocations_.at(freed_.front());
    ReportWritesAfterFree(oldest);
    freed_bytes_ -= oldest.bytes;
    Discard(oldest);
    allocations_.erase(freed_.front());
    freed_.pop_front();
  }
}

void SimulatedMemory::ReportWritesAfterFree(Allocation& allocation) const {
  if (allocation.is_reported || IsFilled(allocation.storage.get() + kGuard, allocation.bytes, kPoison))
    return;
  allocation.is_reported = true;
  find_(fmt::format("something has written to {} after it was freed.", NameOf(allocation)));
}

const std::pair<const uintptr_t, SimulatedMemory::Allocation>* SimulatedMemory::Find(
    uintptr_t address) const {
  const auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  const auto& entry = *std::prev(next);
  // The guards are the allocation's, too.
  return address < entry.first + static_cast<uintptr_t>(entry.second.bytes + kGuard) ? &entry : nullptr;
}

bool SimulatedMemory::Holds(uintptr_t address, int& device) const {
  const auto* const found = Find(address);
  if (found == nullptr) return false;
  device = found->second.device;
  return true;
}

bool SimulatedMemory::Check(std::string_view who, int device, uintptr_t address, int64_t bytes,
                            bool is_enqueued) const {
  const auto* const found = Find(address);
  if (found == nullptr) {
    find_(fmt::format("{} uses an address that is in no allocation.", who));
    return false;
  }
  const Allocation& allocation = found->second;
  const int64_t offset = static_cast<int64_t>(address - found->first);
  std::string wrong;
  if (allocation.state == State::kFreed || (is_enqueued && allocation.is_left)) wrong = "after it was freed";
  else if (!is_enqueued && allocation.state == State::kComing) wrong = "before its stream has allocated it";
  else if (allocation.device != device && device != kPinned) wrong = "which is not its GPU's";
  else if (offset + bytes > allocation.bytes)
    wrong = fmt::format("at bytes {} to {}", offset, offset + bytes);
  if (wrong.empty()) return true;
  find_(fmt::format("{} uses {} {}.", who, NameOf(allocation), wrong));
  return false;
}

int64_t SimulatedMemory::bytes_in_use(int device) const {
  const auto found = in_use_.find(device);
  return found == in_use_.end() ? 0 : found->second;
}

void SimulatedMemory::ReportLeaks() {
  Open();
  for (auto& entry : allocations_) {
    Allocation& allocation = entry.second;
    if (allocation.state == State::kFreed) ReportWritesAfterFree(allocation);
    else if (!allocation.is_left && !allocation.is_reported) {
      find_(fmt::format("{} is never freed.", NameOf(allocation)));
      allocation.is_reported = true;
    }
  }
}

}  // namespace meshwork
