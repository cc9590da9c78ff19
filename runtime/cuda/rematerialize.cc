#include "meshwork/runtime/cuda/rematerialize.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"
#include "meshwork/runtime/cuda/cuda_group.h"
#include "meshwork/runtime/cuda/touched.h"

namespace meshwork {
namespace {

constexpr size_t kMostSteps = 6;  // that make one value again

// A value in memory: the bytes of a storage that all its instances have.
struct ValueRegion {
  int storage = -1;
  int64_t begin = 0, end = 0;
  auto operator<=>(const ValueRegion&) const = default;
  int64_t bytes() const { return end - begin; }
  bool Overlaps(const ValueRegion& other) const {
    return storage == other.storage && begin < other.end && other.begin < end;
  }
};

class Rematerializer {
 public:
  explicit Rematerializer(StepPlan& plan) : plan_(plan) {
    writers_.resize(plan.storages.size());
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      touched_.push_back(TouchedBy(plan, plan.steps[i]));
      for (const int storage : touched_.back().writes) writers_[static_cast<size_t>(storage)].push_back(i);
    }
  }

  void Run() {
    std::vector<Step> steps;
    size_t previous = 0;  // where the unit before begins in `steps`
    for (const Unit& unit : UnitsOf(plan_)) {
      std::vector<Step> members(plan_.steps.begin() + static_cast<ptrdiff_t>(unit.first),
                                plan_.steps.begin() + static_cast<ptrdiff_t>(unit.end));
      const std::span<const Step> before = std::span(steps).subspan(previous);
      while (!unit.has_parts && MakeOneAgain(unit, before, members)) {
      }
      previous = steps.size();
      for (Step& step : members) steps.push_back(std::move(step));
    }
    plan_.steps = std::move(steps);
    RemoveUnread();
  }

 private:
  // Steps [first, end) that are one kernel; or one step.
  struct Unit {
    size_t first = 0, end = 0;
    bool has_parts = false;  // of one op on many tensors (CudaGroup::parts)
  };
  static std::vector<Unit> UnitsOf(const StepPlan& plan) {
    std::vector<Unit> units;
    size_t i = 0;
    for (const CudaGroup& group : FindCudaGroups(plan)) {
      for (; i < group.first; ++i) units.push_back({i, i + 1});
      units.push_back({group.first, group.end, group.parts.has_value()});
      i = group.end;
    }
    for (; i < plan.steps.size(); ++i) units.push_back({i, i + 1});
    return units;
  }

  ValueRegion RegionOf(const ValueBuffers& value, const Type& type) const {
    const Buffer& buffer = plan_.buffers[static_cast<size_t>(value.first)];
    return {buffer.storage, buffer.offset, buffer.offset + type.bytes()};
  }
  ValueRegion OperandOf(const ComputeStep& step, size_t o) const {
    return RegionOf(step.in[o], step.spec.operands[o].local);
  }
  ValueRegion ResultOf(const ComputeStep& step) const {
    return RegionOf(step.out[0], step.spec.results[0].local);
  }

  // The step that made the value of `region` as it is before step `at`: it wrote exactly this region, and no step has
  // written there since. nullopt: there is none, or it is not elementwise.
  std::optional<size_t> MakerOf(const ValueRegion& region, size_t at) const {
    const std::vector<size_t>& writers = writers_[static_cast<size_t>(region.storage)];
    const auto next = std::lower_bound(writers.begin(), writers.end(), at);
    if (next == writers.begin()) return std::nullopt;
    const size_t maker = *(next - 1);
    const auto* const compute = std::get_if<ComputeStep>(&plan_.steps[maker]);
    if (compute == nullptr || compute->once || compute->one_by_one || compute->out.size() != 1 ||
        !compute->spec.reduced.empty() ||
        !IsCudaElementwise(*plan_.graph->nodes()[static_cast<size_t>(compute->node)].row))
      return std::nullopt;
    const bool is_temporary =
        plan_.storages[static_cast<size_t>(region.storage)].kind == Storage::Kind::kTemporary;
    return is_temporary && ResultOf(*compute) == region ? std::optional(maker) : std::nullopt;
  }
  // Whether no step of [begin, end) writes the storage.
  bool IsIntact(int storage, size_t begin, size_t end) const {
    const std::vector<size_t>& writers = writers_[static_cast<size_t>(storage)];
    const auto next = std::lower_bound(writers.begin(), writers.end(), begin);
    return next == writers.end() || *next >= end;
  }

  // The steps, in order, that can make the value of step `maker` again just before step `at`. The regions that they
  // read are still intact then, and have at most 3/4 of the value's bytes; regions of `free` do not count, as they
  // are read anyway. Empty: there are no such steps. Begins with `maker`, and adds the maker of the largest region
  // that is read until that holds.
  std::vector<size_t> ChainOf(size_t maker, size_t at, const std::set<ValueRegion>& free) const {
    const int64_t bytes = ResultOf(std::get<ComputeStep>(plan_.steps[maker])).bytes();
    std::set<size_t> chain = {maker};
    while (true) {
      std::map<ValueRegion, size_t> roots;  // regions that the chain reads, with the first step that does
      for (const size_t step : chain) {
        const auto& compute = std::get<ComputeStep>(plan_.steps[step]);
        for (size_t o = 0; o < compute.in.size(); ++o) {
          const ValueRegion region = OperandOf(compute, o);
          const std::optional<size_t> made = MakerOf(region, step);
          if (!made.has_value() || !chain.contains(*made)) roots.emplace(region, step);
        }
      }
      int64_t read = 0;
      std::optional<size_t> largest;  // the maker of the root that has the most bytes
      int64_t of_largest = 0;
      bool are_there = true;
      for (const auto& [region, step] : roots) {
        const bool is_there = IsIntact(region.storage, step, at);
        are_there &= is_there;
        if (!free.contains(region)) read += region.bytes();
        const std::optional<size_t> made = MakerOf(region, step);
        const int64_t weight = is_there ? region.bytes() : bytes + region.bytes();
        if (made.has_value() && !free.contains(region) && weight > of_largest)
          largest = made, of_largest = weight;
      }
      if (are_there && 4 * read <= 3 * bytes) return {chain.begin(), chain.end()};
      if (!largest.has_value() || chain.size() == kMostSteps) return {};
      chain.insert(*largest);
    }
  }

  // Finds a value that the unit reads and that can be made again, and puts the steps that make it before the unit's
  // members. `before`: the unit before. Returns whether it has found one.
  bool MakeOneAgain(const Unit& unit, std::span<const Step> before, std::vector<Step>& members) {
    std::set<ValueRegion> free, own;
    for (const Step& step : members) {
      const auto* const compute = std::get_if<ComputeStep>(&step);
      if (compute == nullptr || compute->out.size() != 1) return false;
      for (size_t o = 0; o < compute->in.size(); ++o)
        if (!own.contains(OperandOf(*compute, o))) free.insert(OperandOf(*compute, o));
      own.insert(ResultOf(*compute));
    }
    for (const ValueRegion& region : free) {
      if (region.storage >= static_cast<int>(writers_.size())) continue;
      const std::optional<size_t> maker = MakerOf(region, unit.first);
      if (!maker.has_value() || tried_.contains({unit.first, *maker})) continue;
      tried_.insert({unit.first, *maker});
      std::set<ValueRegion> others = free;
      others.erase(region);
      const std::vector<size_t> chain = ChainOf(*maker, unit.first, others);
      if (chain.empty()) continue;
      const size_t storages = plan_.storages.size(), buffers = plan_.buffers.size();
      std::vector<Step> made = WithChain(chain, region, members);
      if (IsOneKernel(made) && !Joins(made.front(), before)) {
        members = std::move(made);
        return true;
      }
      plan_.storages.resize(storages);
      plan_.buffers.resize(buffers);
    }
    return false;
  }

  // Copies of the chain's steps, with results in new storages, and then the members, which read the result of the
  // last copy instead of `region`.
  std::vector<Step> WithChain(const std::vector<size_t>& chain, const ValueRegion& region,
                              const std::vector<Step>& members) {
    std::vector<Step> made;
    std::map<size_t, BufferId> results;  // of the copies, by the steps that they are copies of
    for (const size_t i : chain) {
      ComputeStep copy = std::get<ComputeStep>(plan_.steps[i]);
      for (size_t o = 0; o < copy.in.size(); ++o)
        if (const std::optional<size_t> maker = MakerOf(OperandOf(copy, o), i);
            maker.has_value() && results.contains(*maker))
          copy.in[o].first = results.at(*maker);
      const int64_t bytes = ResultOf(copy).bytes(), instances = copy.out[0].instances.count();
      copy.out[0].first = plan_.AddBuffers(instances, bytes / instances, plan_.AddStorage({.bytes = bytes}));
      results[i] = copy.out[0].first;
      made.push_back(std::move(copy));
    }
    bool is_overwritten = false;
    for (const Step& member : members) {
      ComputeStep copy = std::get<ComputeStep>(member);
      for (size_t o = 0; o < copy.in.size(); ++o)
        if (!is_overwritten && OperandOf(copy, o) == region) copy.in[o].first = results.at(chain.back());
      is_overwritten |= ResultOf(copy).Overlaps(region);
      made.push_back(std::move(copy));
    }
    return made;
  }

  bool IsOneKernel(const std::vector<Step>& steps) const {
    CudaGroupMaker group(plan_);
    for (size_t i = 0; i < steps.size(); ++i)
      if (!group.Add(steps[i]) && (i + 1 < steps.size() || !group.Close(steps[i]))) return false;
    return true;
  }

  // Whether the kernel of the steps before would take the step, so that the kernel after it would lack it.
  bool Joins(const Step& step, std::span<const Step> before) const {
    CudaGroupMaker group(plan_);
    for (const Step& member : before)
      if (!group.Add(member)) return false;
    return group.size() > 0 && group.Add(step);
  }

  // Removes elementwise steps whose temporary results no later step reads. Goes from the last step to the first.
  void RemoveUnread() {
    std::set<int> wanted;  // storages that later steps read
    std::vector<Step> kept;
    for (size_t i = plan_.steps.size(); i-- > 0;) {
      Step& step = plan_.steps[i];
      const Touched touched = TouchedBy(plan_, step);
      const auto* const compute = std::get_if<ComputeStep>(&step);
      const bool may_go =
          compute != nullptr && !compute->once &&
          IsCudaElementwise(*plan_.graph->nodes()[static_cast<size_t>(compute->node)].row) &&
          std::all_of(touched.writes.begin(), touched.writes.end(), [&](int storage) {
            return plan_.storages[static_cast<size_t>(storage)].kind == Storage::Kind::kTemporary &&
                   !wanted.contains(storage);
          });
      if (may_go) continue;
      for (const ValueBuffers& value : compute == nullptr ? std::vector<ValueBuffers>() : compute->out) {
        const int storage = plan_.buffers[static_cast<size_t>(value.first)].storage;
        if (plan_.BytesOf(value) == plan_.storages[static_cast<size_t>(storage)].bytes) wanted.erase(storage);
      }
      wanted.insert(touched.reads.begin(), touched.reads.end());
      kept.push_back(std::move(step));
    }
    std::reverse(kept.begin(), kept.end());
    plan_.steps = std::move(kept);
  }

  StepPlan& plan_;
  std::vector<Touched> touched_;               // of the steps as they were
  std::vector<std::vector<size_t>> writers_;   // by storage, ascending
  std::set<std::pair<size_t, size_t>> tried_;  // units and makers
};

}  // namespace

StepPlan Rematerialize(StepPlan plan) {
  Rematerializer(plan).Run();
  for (Step& step : plan.steps)
    if (auto* const nested = std::get_if<NestedStep>(&step))
      for (StepPlan& body : nested->bodies) body = Rematerialize(std::move(body));
  return plan;
}

}  // namespace meshwork
