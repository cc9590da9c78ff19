#include "meshwork/runtime/cuda/cuda_fusion.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "meshwork/runtime/cuda/fusion_order.h"
#include "meshwork/runtime/cuda/rematerialize.h"
#include "meshwork/runtime/cuda/storage_map.h"
#include "meshwork/runtime/cuda/touched.h"

namespace meshwork {
namespace {

// The groups of elementwise ops and reductions.
std::vector<CudaGroup> FindChains(const StepPlan& plan) {
  const LaterReads later(plan);
  std::vector<CudaGroup> groups;
  for (size_t i = 0; i < plan.steps.size();) {
    CudaGroupMaker group(plan);
    for (std::vector<size_t> spreads; i + group.size() + spreads.size() < plan.steps.size();) {
      const size_t next = i + group.size() + spreads.size();
      if (AddBehind(plan, spreads, next, group)) spreads.clear();
      else if (Spreads(plan, plan.steps[next])) spreads.push_back(next);
      else break;
    }
    if (i + group.size() < plan.steps.size()) group.Close(plan.steps[i + group.size()]);
    if (group.size() > 1) groups.push_back(group.Make(i, later));
    i += std::max<size_t>(group.size(), 1);
  }
  return groups;
}

CudaGroup GroupOf(size_t first, PartsFinder::Found found) {
  CudaGroup group{.first = first, .end = found.end};
  group.operands = found.parts.common;
  for (const CudaParts::Part& part : found.parts.parts) {
    group.operands.insert(group.operands.end(), part.operands.begin(), part.operands.end());
    group.results.insert(group.results.end(), part.results.begin(), part.results.end());
  }
  group.parts = std::move(found.parts);
  return group;
}

}  // namespace

StepPlan OrderForFusion(StepPlan plan) {
  MoveToReaders(plan);
  const auto take = [&](const std::vector<size_t>& order) {
    std::vector<Step> steps;
    for (const size_t i : order) steps.push_back(std::move(plan.steps[i]));
    plan.steps = std::move(steps);
  };
  take(FusedOrder(plan));
  std::vector<StepRange> units;
  for (const CudaGroup& chain : FindChains(plan)) {
    for (size_t i = units.empty() ? 0 : units.back().end; i < chain.first; ++i) units.push_back({i, i + 1});
    units.push_back({chain.first, chain.end});
  }
  for (size_t i = units.empty() ? 0 : units.back().end; i < plan.steps.size(); ++i)
    units.push_back({i, i + 1});
  take(OrderForParts(plan, units));
  for (Step& step : plan.steps)
    if (auto* const nested = std::get_if<NestedStep>(&step))
      for (StepPlan& body : nested->bodies) body = OrderForFusion(std::move(body));
  return plan;
}

StepPlan PlanLaunches(StepPlan plan, bool fuse) {
  if (!fuse) return plan;
  plan = OrderForFusion(std::move(plan));
  // Operands of values that are computed again may have to live longer. This must not make the step need more memory.
  StepPlan again = Rematerialize(plan);
  const bool fits = MapStorages(again, fuse).arena_bytes <= MapStorages(plan, fuse).arena_bytes;
  return fits ? again : plan;
}

std::vector<CudaGroup> FindCudaGroups(const StepPlan& plan) {
  std::vector<CudaGroup> chains = FindChains(plan), groups;
  const PartsFinder finder(plan);
  // Parts are between chains.
  size_t i = 0;
  const auto add_parts = [&](size_t end) {
    while (i < end) {
      std::optional<PartsFinder::Found> found = finder.Find(i, end);
      if (!found.has_value()) {
        ++i;
        continue;
      }
      groups.push_back(GroupOf(i, *std::move(found)));
      i = groups.back().end;
    }
  };
  for (CudaGroup& chain : chains) {
    add_parts(chain.first);
    i = chain.end;
    groups.push_back(std::move(chain));
  }
  add_parts(plan.steps.size());
  return groups;
}

}  // namespace meshwork
