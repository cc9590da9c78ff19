#include "meshwork/ir/plan/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

int64_t RoundUp(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

bool LiveTogether(const BufferRequest& a, const BufferRequest& b) {
  return a.begin <= b.end && b.begin <= a.end;
}

struct Placed {
  int64_t offset, end;
  size_t request;
};

// The start of the smallest gap between `taken` (sorted by offset) that holds `bytes`, or the end.
int64_t BestGap(const std::vector<Placed>& taken, int64_t bytes, int64_t alignment) {
  int64_t free_from = 0, best = -1, best_size = 0;
  for (const Placed& placed : taken) {
    const int64_t gap = placed.offset - free_from;
    if (gap >= bytes && (best < 0 || gap < best_size)) {
      best = free_from;
      best_size = gap;
    }
    free_from = std::max(free_from, RoundUp(placed.end, alignment));
  }
  return best >= 0 ? best : free_from;
}

}  // namespace

MemoryPlan PlanBuffers(std::span<const BufferRequest> requests, int64_t alignment) {
  MemoryPlan plan{.offsets = std::vector<int64_t>(requests.size(), 0)};
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].bytes > requests[b].bytes; });
  std::vector<Placed> placed;  // sorted by offset
  std::vector<Placed> taken;
  for (size_t r : order) {
    const BufferRequest& request = requests[r];
    MESHWORK_CHECK(request.bytes >= 0 && request.begin <= request.end, "request {}: {} bytes in [{}, {}]", r,
                   request.bytes, request.begin, request.end);
    if (request.bytes == 0) continue;
    taken.clear();
    std::copy_if(placed.begin(), placed.end(), std::back_inserter(taken),
                 [&](const Placed& other) { return LiveTogether(request, requests[other.request]); });
    const int64_t offset = BestGap(taken, request.bytes, alignment);
    const Placed mine{offset, offset + request.bytes, r};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), mine,
                                   [](const Placed& a, const Placed& b) { return a.offset < b.offset; }),
                  mine);
    plan.offsets[r] = offset;
    plan.peak = std::max(plan.peak, mine.end);
  }
  return plan;
}

std::vector<int64_t> LiveBytes(std::span<const BufferRequest> requests) {
  int ticks = 0;
  for (const BufferRequest& request : requests) ticks = std::max(ticks, request.end + 1);
  std::vector<__int128> changes(ticks + 1, 0);  // how much comes and goes
  for (const BufferRequest& request : requests) {
    changes[request.begin] += request.bytes;
    changes[request.end + 1] -= request.bytes;
  }
  std::vector<int64_t> live;
  __int128 now = 0;
  for (int tick = 0; tick < ticks; ++tick) {
    now += changes[tick];
    live.push_back(static_cast<int64_t>(std::min<__int128>(now, std::numeric_limits<int64_t>::max())));
  }
  return live;
}

int64_t MaxLiveBytes(std::span<const BufferRequest> requests) {
  int64_t peak = 0;
  for (int64_t bytes : LiveBytes(requests)) peak = std::max(peak, bytes);
  return peak;
}

}  // namespace meshwork
