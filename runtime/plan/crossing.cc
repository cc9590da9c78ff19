#include "meshwork/runtime/plan/crossing.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/collective.h"

namespace meshwork {
namespace {

// The ranges in order; ranges that touch or overlap are joined.
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

// The elements of `sum` that the holder of source `s` adds up.
ElementRange PartOf(const Transfer& sum, size_t s) {
  constexpr int64_t kLine = 64;  // bytes
  const int64_t elements = sum.box.elements(), parts = std::ssize(sum.from);
  const int64_t aligned = kLine / DTypeSize(sum.dtype);
  const auto cut = [&](int64_t p) {
    return p == parts ? elements : elements * p / parts / aligned * aligned;
  };
  return {cut(static_cast<int64_t>(s)), cut(static_cast<int64_t>(s) + 1)};
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

CrossingPlanner::CrossingPlanner(const Graph& local, const Domain& domain, std::vector<AxisSet> axes,
                                 int64_t latency_bytes)
    : local_(local), domain_(domain), axes_(std::move(axes)), latency_bytes_(latency_bytes) {
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

int64_t CrossingPlanner::DeviceOf(const Source& source) const {
  return everywhere_[source.value].instances.Representative(source.instance);
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

std::vector<Crossed> CrossingPlanner::MovedTo(int64_t domain, int node, const Fillings& fillings) const {
  // By domain, operand and device, which all domains number alike.
  std::map<std::tuple<int64_t, size_t, int64_t>, std::vector<ElementRange>> ranges;
  const auto& operands = local_.nodes()[node].operands;
  for (const auto& [r, transfer] : fillings) {
    for (BufferId from : transfer.from) {
      const Source source = SourceOf(node, from);
      const int64_t device = DeviceOf(source);
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

const CrossingPlanner::Filling* CrossingPlanner::SameIn(const Fillings& other, const Fillings& fillings,
                                                        size_t i) {
  const auto is_same = [&filling = fillings[i]](const Filling& there) {
    return there.r == filling.r && there.transfer.from == filling.transfer.from &&
           there.transfer.box == filling.transfer.box;
  };
  if (i < other.size() && is_same(other[i])) return &other[i];  // most often
  const auto same = std::find_if(other.begin(), other.end(), is_same);
  return same == other.end() ? nullptr : &*same;
}

int64_t CrossingPlanner::OwnSource(int64_t domain, int node, const Filling& filling) const {
  int64_t own = -1;
  for (size_t s = 0; s < filling.transfer.from.size(); ++s) {
    const Source source = SourceOf(node, filling.transfer.from[s]);
    if (HolderIn(domain, source.value, DeviceOf(source)) < 0) continue;
    if (own >= 0) return -1;
    own = static_cast<int64_t>(s);
  }
  return own;
}

bool CrossingPlanner::TakesTwoRounds(int node, const std::vector<Fillings>& fillings) const {
  if (local_.nodes()[node].row->collective != CollectiveKind::kAllReduce) return false;
  int64_t most = 0;
  for (const Fillings& all : fillings) {
    int64_t bytes = 0;
    for (const auto& [r, transfer] : all) bytes += transfer.box.elements() * DTypeSize(transfer.dtype);
    most = std::max(most, bytes);
  }
  if (most <= latency_bytes_) return false;
  for (size_t domain = 0; domain < fillings.size(); ++domain) {
    for (size_t i = 0; i < fillings[domain].size(); ++i) {
      const Transfer& transfer = fillings[domain][i].transfer;
      if (transfer.from.size() < 3 || !transfer.box.contiguous()) return false;
      const int64_t own = OwnSource(static_cast<int64_t>(domain), node, fillings[domain][i]);
      for (size_t s = 0; s < transfer.from.size(); ++s) {
        const int64_t maker =
            static_cast<int64_t>(s) == own ? static_cast<int64_t>(domain) : MakerOf(node, transfer.from[s]);
        const Filling* const there = SameIn(fillings[static_cast<size_t>(maker)], fillings[domain], i);
        if (there == nullptr || OwnSource(maker, node, *there) != static_cast<int64_t>(s)) return false;
      }
    }
  }
  return true;
}

int64_t CrossingPlanner::MakerOf(int node, BufferId from) const {
  return domain_.placement().DomainOf(DeviceOf(SourceOf(node, from)));
}

CrossingPlanner::Fillings CrossingPlanner::PartsOf(int64_t domain, int node, const Fillings& fillings) const {
  Fillings parts;
  for (const Filling& filling : fillings) {
    Transfer part = filling.transfer;
    const ElementRange range =
        PartOf(filling.transfer, static_cast<size_t>(OwnSource(domain, node, filling)));
    filling.transfer.box.ForRuns(range.begin, range.end, [&](int64_t from, int64_t to, int64_t count) {
      part.box = BoxCopy::Runs(1, count, from, count, to, count);
      parts.push_back({filling.r, part});
    });
  }
  return parts;
}

void CrossingPlanner::PlanParts(int node, const std::vector<Fillings>& fillings,
                                const std::vector<ValueBuffers>& values, Crossing& crossing) const {
  const int64_t here = domain_.index();
  const auto& results = local_.nodes()[node].results;
  for (int64_t to = 0; to < domain_.placement().num_domains(); ++to) {
    const Fillings& there = fillings[static_cast<size_t>(to)];
    for (size_t i = 0; i < there.size(); ++i) {
      const Filling& filling = there[i];
      const int64_t own = OwnSource(to, node, filling);
      for (size_t s = 0; s < filling.transfer.from.size(); ++s) {
        if (static_cast<int64_t>(s) == own) continue;
        const int64_t maker = MakerOf(node, filling.transfer.from[s]);
        if (to != here && maker != here) continue;
        Crossed crossed{maker, to, results[static_cast<size_t>(filling.r)]};
        const ElementRange range = PartOf(filling.transfer, s);
        filling.transfer.box.ForRuns(range.begin, range.end, [&](int64_t, int64_t begin, int64_t count) {
          crossed.elements.push_back({begin, begin + count});
        });
        if (crossed.elements.empty()) continue;
        const Filling& mine = to == here ? filling : *SameIn(fillings[static_cast<size_t>(here)], there, i);
        crossed.device = values[crossed.value].instances.Representative(mine.transfer.to);
        (to == here ? crossing.received_parts : crossing.sent_parts).push_back(std::move(crossed));
      }
    }
  }
  // The sent parts are in order already.
  std::stable_sort(crossing.received_parts.begin(), crossing.received_parts.end(),
                   [](const Crossed& a, const Crossed& b) { return a.from_domain < b.from_domain; });
}

absl::StatusOr<Crossing> CrossingPlanner::Plan(int node, const std::vector<ValueBuffers>& values) {
  const Node& collective = local_.nodes()[node];
  const int64_t num_domains = domain_.placement().num_domains();
  std::vector<Fillings> fillings(static_cast<size_t>(num_domains));
  for (int64_t domain = 0; domain < num_domains; ++domain) {
    for (int r = 0; r < static_cast<int>(collective.results.size()); ++r) {
      MESHWORK_ASSIGN_OR_RETURN(std::vector<Transfer> transfers, PlanFor(domain, node, r));
      for (Transfer& transfer : transfers)
        fillings[static_cast<size_t>(domain)].push_back({r, std::move(transfer)});
    }
  }
  Crossing crossing;
  crossing.takes_two_rounds = TakesTwoRounds(node, fillings);
  if (crossing.takes_two_rounds) {
    PlanParts(node, fillings, values, crossing);
    for (int64_t domain = 0; domain < num_domains; ++domain) {
      Fillings& whole = fillings[static_cast<size_t>(domain)];
      whole = PartsOf(domain, node, whole);
    }
  }
  for (int64_t domain = 0; domain < num_domains; ++domain) {
    std::vector<Crossed> moved = MovedTo(domain, node, fillings[static_cast<size_t>(domain)]);
    if (domain == domain_.index()) crossing.received = std::move(moved);
    else
      std::copy_if(std::make_move_iterator(moved.begin()), std::make_move_iterator(moved.end()),
                   std::back_inserter(crossing.sent),
                   [&](const Crossed& crossed) { return crossed.from_domain == domain_.index(); });
  }
  for (Filling& filling : fillings[static_cast<size_t>(domain_.index())]) {
    const ValueBuffers& result = values[collective.results[static_cast<size_t>(filling.r)]];
    Transfer& transfer = filling.transfer;
    crossing.devices.push_back(result.instances.Representative(transfer.to));
    transfer.to += result.first;
    for (BufferId& from : transfer.from) from = Here(SourceOf(node, from), values, crossing.received);
    crossing.transfers.push_back(std::move(transfer));
  }
  return crossing;
}

BufferId CrossingPlanner::Here(const Source& source, const std::vector<ValueBuffers>& values,
                               const std::vector<Crossed>& received) const {
  const int64_t device = DeviceOf(source);
  const int64_t holder = HolderIn(domain_.index(), source.value, device);
  if (holder >= 0) return values[source.value].Of(holder);
  for (size_t k = 0; k < received.size(); ++k)
    if (received[k].value == source.value && received[k].device == device)
      return -1 - static_cast<BufferId>(k);
  MESHWORK_CHECK(false, "device {} holds what nobody sends", device);
  return -1;
}

}  // namespace meshwork
