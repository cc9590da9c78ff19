#include "meshwork/runtime/plan/sharing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/loop.h"

namespace meshwork {
namespace {

AxisSet ShardedAxes(const Graph& local, ValueId value) { return local.value(value).layout->ShardedAxes(); }

// The axes that shard the value, and those on which the devices' terms of a sum differ.
AxisSet LayoutAxes(const Graph& local, ValueId value) {
  return ShardedAxes(local, value).Union(local.value(value).layout->PartialAxes());
}

// The devices that exchange data differ on these axes. A permute's group is every axis that its
// layouts name.
AxisSet AxesOfGroup(const Graph& local, const Node& node) {
  if (const CollectiveSpec collective = CollectiveOf(node); collective.has_axes())
    return AxisSet(collective.axes);
  return LayoutAxes(local, node.operands[0]).Union(LayoutAxes(local, node.results[0]));
}

// A device gets its block from devices that differ from it on the axes that cut the operands.
void VisitExchange(const Graph& local, const Node& node, std::vector<AxisSet>& varying) {
  AxisSet axes = LayoutAxes(local, node.results[0]);
  for (ValueId operand : node.operands)
    axes = axes.Union(varying[operand].Minus(ShardedAxes(local, operand)));
  varying[node.results[0]] = axes;
}

// Per value, whether a collective over `across` reads it.
std::vector<bool> FindCrossing(const Graph& local, AxisSet across) {
  std::vector<bool> crosses(local.values().size(), false);
  for (const Node& node : local.nodes()) {
    if (node.row->kind != OpKind::kCollective || !MovesOver(local, node, across)) continue;
    for (ValueId operand : node.operands) crosses[operand] = true;
  }
  return crosses;
}

// For an all_reduce that a cross-device op makes.
void VisitAllReduce(const Graph& local, const Node& node, const std::vector<bool>& crosses,
                    std::vector<AxisSet>& varying) {
  const AxisSet group = AxesOfGroup(local, node);
  for (size_t r = 0; r < node.results.size(); ++r) {
    const AxisSet axes = varying[node.operands[r]].Minus(group).Union(LayoutAxes(local, node.results[r]));
    varying[node.results[r]] = crosses[node.results[r]] ? axes : axes.Union(group);
  }
}

void VisitCollective(const Graph& local, const Node& node, std::vector<AxisSet>& varying) {
  if (node.row->collective == CollectiveKind::kExchange) return VisitExchange(local, node, varying);
  const AxisSet group = AxesOfGroup(local, node);
  for (size_t r = 0; r < node.results.size(); ++r) {
    varying[node.results[r]] =
        varying[node.operands[r]].Minus(group).Union(LayoutAxes(local, node.results[r]));
  }
}

void VisitCompute(const Graph& local, const Node& node, std::vector<AxisSet>& varying) {
  AxisSet axes;
  for (ValueId operand : node.operands) axes = axes.Union(varying[operand]);
  if (node.row->reads_block) {
    for (ValueId value : node.operands) axes = axes.Union(ShardedAxes(local, value));
    for (ValueId value : node.results) axes = axes.Union(ShardedAxes(local, value));
  }
  for (ValueId result : node.results) varying[result] = axes;
}

// What is known of the loops in a body when the body is visited again. Arguments only ever gain axes, so a
// loop continues from what it had found; otherwise each loop around it would double the number of its visits.
struct LoopState {
  std::vector<AxisSet> arguments;  // empty: not looked at yet
  std::map<const Node*, LoopState> inner;
};
using LoopStates = std::map<const Node*, LoopState>;

std::vector<AxisSet> Vary(const Graph& local, const std::vector<AxisSet>& arguments, bool share,
                          const std::optional<AxisSet>& own_results, LoopStates& loops);

// A carry varies over the axes of its initial value and over those of its updates, so bodies are visited
// until nothing changes.
void VisitLoop(const Node& node, const std::optional<AxisSet>& own_results, std::vector<AxisSet>& varying,
               LoopState& state) {
  const LoweredLoop lowered = LoweredLoopOf(node);
  const size_t results = node.results.size();
  std::vector<AxisSet> arguments(results);
  for (size_t r = 0; r < results; ++r)
    if (lowered.initial[r] >= 0) arguments[r] = varying[node.operands[lowered.initial[r]]];
  for (size_t o = lowered.first_read; o < node.operands.size(); ++o)
    arguments.push_back(varying[node.operands[o]]);
  for (size_t a = 0; a < state.arguments.size(); ++a) arguments[a] = arguments[a].Union(state.arguments[a]);
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& region : node.regions) {
      const std::vector<AxisSet> inside = Vary(*region, arguments, /*share=*/true, own_results, state.inner);
      for (const VariableUpdate& update : region->updates()) {
        const AxisSet axes = arguments[update.argument].Union(inside[update.value]);
        changed = changed || axes != arguments[update.argument];
        arguments[update.argument] = axes;
      }
    }
  }
  for (size_t r = 0; r < results; ++r) varying[node.results[r]] = arguments[r];
  state.arguments = std::move(arguments);
}

std::vector<AxisSet> Vary(const Graph& local, const std::vector<AxisSet>& arguments, bool share,
                          const std::optional<AxisSet>& own_results, LoopStates& loops) {
  MESHWORK_CHECK(arguments.size() == local.arguments().size());
  std::vector<AxisSet> varying(local.values().size());
  for (size_t a = 0; a < arguments.size(); ++a) varying[local.arguments()[a].value] = arguments[a];
  std::vector<bool> crosses;
  if (own_results.has_value()) crosses = FindCrossing(local, *own_results);
  for (const Node& node : local.nodes()) {
    if (!share) {
      for (ValueId result : node.results) varying[result] = AllAxes(local.mesh());
    } else if (IsControl(node)) {
      VisitLoop(node, own_results, varying, loops[&node]);
    } else if (own_results.has_value() && node.row->collective == CollectiveKind::kAllReduce &&
               !MovesOver(local, node, *own_results)) {
      VisitAllReduce(local, node, crosses, varying);
    } else if (node.row->kind == OpKind::kCollective) {
      VisitCollective(local, node, varying);
    } else {
      VisitCompute(local, node, varying);
    }
  }
  return varying;
}

AxisSet WithoutTrivialAxes(const Mesh& mesh, AxisSet axes) {
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    if (mesh.axis(axis).size == 1) axes.Remove(axis);
  return axes;
}

}  // namespace

AxisList InstanceOrder(AxisSet axes) {
  AxisList order = axes.ToList();
  std::reverse(order.begin(), order.end());
  return order;
}

InstanceMap::InstanceMap(const Domain& domain, AxisSet axes)
    : varying_(WithoutTrivialAxes(domain.mesh(), axes)),
      axes_(varying_.Minus(domain.placement().across())),
      group_(domain.mesh(), InstanceOrder(axes_)),
      first_(domain.first_device()) {}

AxisSet AllAxes(const Mesh& mesh) {
  AxisSet all;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) all.Add(axis);
  return all;
}

bool MovesOver(const Graph& local, const Node& collective, AxisSet axes) {
  if (axes.empty()) return false;
  AxisSet moved = AxesOfGroup(local, collective);
  for (ValueId operand : collective.operands)
    if (!CollectiveOf(collective).has_axes()) moved = moved.Union(LayoutAxes(local, operand));
  return moved.Intersects(axes);
}

std::vector<AxisSet> VaryingAxes(const Graph& local, const std::vector<AxisSet>& arguments, bool share,
                                 const std::optional<AxisSet>& own_results) {
  LoopStates loops;
  return Vary(local, arguments, share, own_results, loops);
}

}  // namespace meshwork
