// Decides which worker does which part of an instruction. Kept apart from schedule.cc because it is all the
// load
// balancing there is.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/schedule.h"

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

// ---- Rows.

namespace {

// Where rows may be cut, nearest to a share of them.
int64_t RowAt(const Instruction& instruction, double share) {
  const std::vector<int64_t>& bounds = instruction.steps[0].kernel.bounds;
  const int64_t row = std::llround(share * static_cast<double>(instruction.needed));
  if (bounds.empty() && instruction.one_by_one) {
    const int64_t items = instruction.items.count(), item = instruction.rows / items;
    if (item * items == instruction.rows)
      return std::min(instruction.needed, (row + item / 2) / std::max<int64_t>(item, 1) * item);
  }
  if (bounds.empty()) {
    // Elements are cut at cache lines.
    const int64_t multiple = instruction.rows >= 1024 ? 16 : 1;
    return std::min(instruction.needed, (row + multiple / 2) / multiple * multiple);
  }
  const auto after = std::lower_bound(bounds.begin(), bounds.end(), row);
  if (after == bounds.begin()) return *after;
  return after == bounds.end() || row - *(after - 1) < *after - row ? *(after - 1) : *after;
}

// Whether one worker has all rows although there are others.
bool IsByOne(const std::vector<int64_t>& cut) {
  int busy = 0;
  for (size_t w = 0; w + 1 < cut.size(); ++w) busy += cut[w] < cut[w + 1];
  return cut.size() > 2 && busy == 1;
}

}  // namespace

std::optional<RowCuts::Cut> RowCuts::RowsOf(const Cut& bytes, const StepBuffer& at,
                                            const Instruction& instruction) const {
  if (at.bytes == 0 || at.parts <= 1) return std::nullopt;
  const int64_t part = at.bytes / at.parts;
  const int64_t divisor = std::gcd(at.parts, instruction.rows), parts = at.parts / divisor;  // stay small
  Cut rows;
  for (int64_t byte : bytes) {
    if (byte % part != 0 || byte / part % parts != 0) return std::nullopt;
    rows.push_back(std::min(byte / part / parts * (instruction.rows / divisor), instruction.needed));
    if (!instruction.steps[0].kernel.MayCutAt(rows.back())) return std::nullopt;
  }
  // If fewer rows were made than are needed, the last worker has the rest.
  const bool is_short = rows.back() < instruction.needed;
  rows.back() = instruction.needed;
  const auto last = static_cast<double>(rows.back() - rows[rows.size() - 2]);
  if (is_short && last * workers_ > kImbalance * static_cast<double>(instruction.needed)) return std::nullopt;
  return rows;
}

RowCuts::Cut RowCuts::Even(const Instruction& instruction, double cost) const {
  Cut rows(workers_ + 1, instruction.needed);
  rows[0] = 0;
  const KernelStep& first = instruction.steps[0];
  const int64_t pieces = first.is_sliced() ? std::ssize(first.kernel.bounds) - 1 : instruction.rows;
  if (pieces > 1 && (cost >= kWorthCutting || instruction.one_by_one))
    for (int w = 1; w < workers_; ++w) rows[w] = RowAt(instruction, static_cast<double>(w) / workers_);
  return rows;
}

void RowCuts::Assign(const Schedule& schedule, double cost, Instruction& instruction) {
  instruction.slices.assign(workers_, {});
  if (instruction.rows == 0) return;
  const auto storage_of = [&](const StepBuffer& at) { return schedule.buffers[at.buffer].storage; };
  if (instruction.is_by_team()) {
    instruction.slices.assign(workers_, {WorkSlice{0, 0, instruction.rows}});
    for (const StepBuffer& at : instruction.steps[0].buffers)
      if (at.is_result) Forget(storage_of(at));
    return;
  }
  std::optional<Cut> cut;
  for (const KernelStep& step : instruction.steps) {
    for (const StepBuffer& at : step.buffers) {
      const auto known = cuts_.find(storage_of(at));
      if (cut.has_value() || at.is_result || known == cuts_.end()) continue;
      if (cost >= kWorthCutting && IsByOne(known->second)) continue;
      cut = RowsOf(known->second, at, instruction);
    }
  }
  if (!cut.has_value()) cut = Even(instruction, cost);
  const bool has_product = instruction.steps[0].is_sliced() && instruction.steps.size() > 1;
  for (int w = 0; w < workers_; ++w) {
    for (int64_t begin = (*cut)[w]; begin < (*cut)[w + 1];) {
      int64_t end = (*cut)[w + 1];
      // A product is followed by its epilogue slice by slice.
      if (has_product) {
        const std::vector<int64_t>& bounds = instruction.steps[0].kernel.bounds;
        end = std::min(end, *std::upper_bound(bounds.begin(), bounds.end(), begin));
      }
      if (instruction.one_by_one && instruction.rows % instruction.items.count() == 0) {
        const int64_t item = instruction.rows / instruction.items.count();
        end = std::min(end, (begin / item + 1) * item);
      }
      instruction.slices[w].push_back({0, begin, end});
      begin = end;
    }
  }
  for (const KernelStep& step : instruction.steps) {
    for (const StepBuffer& at : step.buffers) {
      if (!at.is_result) continue;
      Forget(storage_of(at));
      if (at.parts % instruction.rows != 0) continue;
      for (int64_t row : *cut) cuts_[storage_of(at)].push_back(row * (at.bytes / instruction.rows));
    }
  }
}

}  // namespace meshwork
