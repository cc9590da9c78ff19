#include "meshwork/spmd/choose_layouts.h"

#include <algorithm>
#include <utility>

#include "meshwork/ir/regions.h"
#include "meshwork/plan/explain.h"
#include "meshwork/spmd/bucket.h"
#include "meshwork/spmd/localize.h"
#include "meshwork/spmd/move_seconds.h"
#include "meshwork/spmd/simplify.h"
#include "meshwork/spmd/solve_layouts.h"

namespace meshwork {
namespace {

Graph LocalOf(const InsertedRelayouts& inserted, const std::vector<OpenedLoop>& loops,
              const Topology& topology) {
  return Localize(loops.empty() ? inserted.graph : CloseLoops(inserted.graph, loops), {.topology = topology});
}

}  // namespace

bool SendsLess(const InsertedRelayouts& a, const InsertedRelayouts& b, const std::vector<OpenedLoop>& loops,
               const Topology& topology, int64_t memory_budget) {
  // What is refused in any case is told of the program that there is.
  if (!a.refused.empty()) return false;
  if (!b.refused.empty()) return true;
  const Graph local_a = LocalOf(a, loops, topology), local_b = LocalOf(b, loops, topology);
  const StepCost cost_a = CostOf(local_a, topology), cost_b = CostOf(local_b, topology);
  if (memory_budget > 0 && cost_a.peak_bytes > std::max(memory_budget, cost_b.peak_bytes)) return false;
  if (!topology.is_assumed()) return cost_a.seconds < cost_b.seconds * kLess;
  if (cost_a.bytes >= cost_b.bytes) return false;
  if (cost_a.collectives <= cost_b.collectives || 2 * cost_a.bytes <= cost_b.bytes) return true;
  auto joined = [&](const Graph& local) {
    const Graph small = DropDeadCode(ShareSubexpressions(local));
    return CostOf(WithRegions(small, [](const Graph& body) { return BucketReductions(body); }), topology);
  };
  return joined(local_a).collectives <= joined(local_b).collectives;
}

std::optional<ChosenLayouts> ChooseLayouts(const Graph& pinned, const Graph& propagated,
                                           const InsertedRelayouts& now, const std::vector<OpenedLoop>& loops,
                                           const Topology& topology, const Replication& replication,
                                           int64_t memory_budget) {
  // Of a weight that must not be gathered the user is asked, rather than given a dearer program.
  if (std::any_of(now.refused.begin(), now.refused.end(),
                  [&](const RefusedGather& gather) { return replication.IsBoundWeight(gather.value); }))
    return std::nullopt;
  if (!MaySolveLayouts(pinned, loops)) return std::nullopt;
  // What moves nothing costs least.
  if (now.moved.empty() && now.refused.empty()) return std::nullopt;
  std::optional<SolvedLayouts> solved = SolveLayouts(pinned, propagated, now.choices, topology, replication);
  if (!solved.has_value() || !solved->is_better) return std::nullopt;
  InsertedRelayouts inserted =
      InsertOwing(solved->propagated, topology, replication, std::move(solved->choices));
  if (!SendsLess(inserted, now, loops, topology, memory_budget)) return std::nullopt;
  return ChosenLayouts{std::move(solved->propagated), std::move(inserted), std::move(solved->decisions)};
}

}  // namespace meshwork
