// Who does which part of an instruction. Kept apart from schedule.cc because it is all the load
// balancing there is.
#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "runtime/schedule.h"

namespace meshwork {
namespace {

// Below this much work (floating-point operations, roughly) a barrier costs more than a cut saves.
constexpr double kWorthCutting = 1 << 15;
// Owners may do this much more than their even share before items are cut.
constexpr double kImbalance = 1.25;

bool OwnersAreBalanced(std::span<const WorkItem> items, int workers, double total) {
  std::vector<double> load(workers, 0);
  for (const WorkItem& item : items) load[item.owner] += item.cost;
  return *std::max_element(load.begin(), load.end()) * workers <= kImbalance * total;
}

// The unit of `item` nearest to a share of it, by the multiples at which it may be cut.
int64_t CutAt(const WorkItem& item, double share) {
  if (share <= 0) return 0;
  if (share >= 1) return item.units;
  const double pieces = static_cast<double>(item.units) / static_cast<double>(item.multiple);
  return std::min<int64_t>(item.units, std::llround(pieces * share) * item.multiple);
}

}  // namespace

std::vector<std::vector<WorkSlice>> AssignWork(std::span<const WorkItem> items, int workers) {
  std::vector<std::vector<WorkSlice>> slices(workers);
  double total = 0;
  bool can_cut = false;
  for (const WorkItem& item : items) {
    MESHWORK_CHECK(item.owner >= 0 && item.owner < workers);
    total += item.cost;
    can_cut |= item.units > item.multiple;
  }
  const bool cut =
      can_cut && workers > 1 && total >= kWorthCutting && !OwnersAreBalanced(items, workers, total);
  double before = 0;  // cost of the items before this one
  for (size_t i = 0; i < items.size(); ++i) {
    const WorkItem& item = items[i];
    if (item.units > 0 && !cut) slices[item.owner].push_back({static_cast<int>(i), 0, item.units});
    if (item.units > 0 && cut) {
      // The line of all items, cut into even shares; worker w has [w, w + 1) · total / workers.
      for (int w = 0; w < workers; ++w) {
        const int64_t begin = CutAt(item, (total * w / workers - before) / item.cost);
        const double share = (total * (w + 1) / workers - before) / item.cost;
        const int64_t end = w + 1 == workers ? item.units : CutAt(item, share);
        if (begin < end) slices[w].push_back({static_cast<int>(i), begin, end});
      }
    }
    before += item.cost;
  }
  return slices;
}

}  // namespace meshwork
