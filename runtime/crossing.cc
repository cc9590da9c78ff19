#include "meshwork/runtime/crossing.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/collective.h"

namespace meshwork {
namespace {

// The ranges in order, those that touch as one.
std::vector<ElementRange> Merged(std::vector<ElementRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const ElementRange& a, const ElementRange& b) { return a.begin < b.begin; });
  std::vector<ElementRange> merged;
  for (const ElementRange& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, range.end);
    else merged.push_back(range);
  }
  return merged;
}

}  // namespace

std::vector<ElementRuns> RunsOf(const std::vector<ElementRange>& ranges) {
  std::vector<ElementRuns> runs;
  for (const ElementRange& range : ranges) {
    const int64_t size = range.end - range.begin;
    if (!runs.empty() && runs.back().size == size) {
      ElementRuns& last = runs.back();
      const int64_t step = range.begin - (last.begin + (last.count - 1) * last.step);
      if (last.count == 1) last.step = step;
      if (last.step == step) {
        ++last.count;
        continue;
      }
    }
    runs.push_back({range.begin, size, 1, size});
  }
  return runs;
}

int64_t Crossed::num_elements() const {
  int64_t count = 0;
  for (const ElementRange& range : elements) count += range.end - range.begin;
  return count;
}

CrossingPlanner::CrossingPlanner(const Graph& local, const Domain& domain, std::vector<AxisSet> axes)
    : local_(local), domain_(domain), axes_(std::move(axes)) {
  BufferId first = 0;
  for (AxisSet varying : axes_) {
    everywhere_.push_back({InstanceMap(local.mesh(), varying), first});
    first += static_cast<BufferId>(everywhere_.back().instances.count());
  }
}

absl::StatusOr<std::vector<Transfer>> CrossingPlanner::PlanFor(int64_t domain, int node, int r) {
  const ValueId result = local_.nodes()[node].results[r];
  const ValueBuffers all = std::exchange(
      everywhere_[result],
      ValueBuffers{InstanceMap(Domain(domain_.placement(), domain), axes_[result]), /*first=*/0});
  absl::StatusOr<std::vector<Transfer>> transfers = PlanCollective(local_, node, r, everywhere_);
  everywhere_[result] = all;
  return transfers;
}

CrossingPlanner::Source CrossingPlanner::SourceOf(int node, BufferId id) const {
  for (ValueId operand : local_.nodes()[node].operands) {
    const int64_t instance = id - everywhere_[operand].first;
    if (instance >= 0 && instance < everywhere_[operand].instances.count()) return {operand, instance};
  }
  MESHWORK_CHECK(false, "buffer {} is no operand's", id);
  return {};
}

int64_t CrossingPlanner::HolderIn(int64_t domain, ValueId value, int64_t device) const {
  const InstanceMap& instances = everywhere_[value].instances;
  const Placement& placement = domain_.placement();
  const int64_t there =
      placement.FirstDevice(domain) + device - placement.FirstDevice(placement.DomainOf(device));
  return instances.Of(there) == instances.Of(device) ? there : -1;
}

std::vector<Crossed> CrossingPlanner::MovedTo(int64_t domain, int node,
                                              const std::vector<Transfer>& transfers) const {
  // By domain, operand and device, which all domains number alike.
  std::map<std::tuple<int64_t, size_t, int64_t>, std::vector<ElementRange>> ranges;
  const auto& operands = local_.nodes()[node].operands;
  for (const Transfer& transfer : transfers) {
    for (BufferId from : transfer.from) {
      const Source source = SourceOf(node, from);
      const int64_t device = everywhere_[source.value].instances.Representative(source.instance);
      if (HolderIn(domain, source.value, device) >= 0) continue;
      const auto operand = std::find(operands.begin(), operands.end(), source.value) - operands.begin();
      std::vector<ElementRange>& read =
          ranges[{domain_.placement().DomainOf(device), static_cast<size_t>(operand), device}];
      transfer.box.ForRuns(0, transfer.box.elements(), [&](int64_t begin, int64_t /*to*/, int64_t count) {
        if (!read.empty() && read.back().end == begin) read.back().end += count;
        else read.push_back({begin, begin + count});
      });
    }
  }
  std::vector<Crossed> moved;
  for (auto& [key, read] : ranges) {
    const auto& [from, operand, device] = key;
    moved.push_back({from, domain, operands[operand], device, Merged(std::move(read))});
  }
  return moved;
}

absl::StatusOr<Crossing> CrossingPlanner::Plan(int node, const std::vector<ValueBuffers>& values) {
  const Node& collective = local_.nodes()[node];
  Crossing crossing;
  for (int64_t domain = 0; domain < domain_.placement().num_domains(); ++domain) {
    std::vector<Transfer> all;
    for (size_t r = 0; r < collective.results.size(); ++r) {
      MESHWORK_ASSIGN_OR_RETURN(const std::vector<Transfer> transfers,
                                PlanFor(domain, node, static_cast<int>(r)));
      all.insert(all.end(), transfers.begin(), transfers.end());
      if (domain != domain_.index()) continue;
      const ValueBuffers& result = values[collective.results[r]];
      for (Transfer transfer : transfers) {
        crossing.devices.push_back(result.instances.Representative(transfer.to));
        transfer.to += result.first;
        crossing.transfers.push_back(std::move(transfer));
      }
    }
    std::vector<Crossed> moved = MovedTo(domain, node, all);
    if (domain == domain_.index()) crossing.received = std::move(moved);
    else
      std::copy_if(std::make_move_iterator(moved.begin()), std::make_move_iterator(moved.end()),
                   std::back_inserter(crossing.sent),
                   [&](const Crossed& crossed) { return crossed.from_domain == domain_.index(); });
  }
  for (Transfer& transfer : crossing.transfers)
    for (BufferId& from : transfer.from) from = Here(SourceOf(node, from), values, crossing.received);
  return crossing;
}

BufferId CrossingPlanner::Here(const Source& source, const std::vector<ValueBuffers>& values,
                               const std::vector<Crossed>& received) const {
  const int64_t device = everywhere_[source.value].instances.Representative(source.instance);
  const int64_t holder = HolderIn(domain_.index(), source.value, device);
  if (holder >= 0) return values[source.value].Of(holder);
  for (size_t k = 0; k < received.size(); ++k)
    if (received[k].value == source.value && received[k].device == device)
      return -1 - static_cast<BufferId>(k);
  MESHWORK_CHECK(false, "device {} holds what nobody sends", device);
  return -1;
}

}  // namespace meshwork
