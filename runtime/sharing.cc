#include "runtime/sharing.h"

#include <algorithm>

#include "base/status.h"
#include "ops/row.h"

namespace meshwork {
namespace {

AxisSet ShardedAxes(const Graph& local, ValueId value) { return local.value(value).layout->ShardedAxes(); }

// Also the axes on which the devices' terms of a sum differ.
AxisSet LayoutAxes(const Graph& local, ValueId value) {
  return ShardedAxes(local, value).Union(local.value(value).layout->PartialAxes());
}

// The devices that exchange data differ on these axes. A permute's group is every axis that its
// layouts name.
AxisSet GroupAxes(const Graph& local, const Node& node) {
  if (const AttrValue* axes = node.attrs.Find("axes"); axes != nullptr)
    return AxisSet(std::get<AxisList>(*axes));
  return LayoutAxes(local, node.operands[0]).Union(LayoutAxes(local, node.results[0]));
}

void VisitCollective(const Graph& local, const Node& node, std::vector<AxisSet>& varying) {
  const AxisSet group = GroupAxes(local, node);
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

InstanceMap::InstanceMap(const Mesh& mesh, AxisSet axes)
    : axes_(WithoutTrivialAxes(mesh, axes)), group_(mesh, InstanceOrder(axes_)) {}

AxisSet AllAxes(const Mesh& mesh) {
  AxisSet all;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) all.Add(axis);
  return all;
}

std::vector<AxisSet> VaryingAxes(const Graph& local, const std::vector<AxisSet>& arguments, bool share) {
  MESHWORK_CHECK(arguments.size() == local.arguments().size());
  std::vector<AxisSet> varying(local.values().size());
  for (size_t a = 0; a < arguments.size(); ++a) varying[local.arguments()[a].value] = arguments[a];
  for (const Node& node : local.nodes()) {
    if (!share) {
      for (ValueId result : node.results) varying[result] = AllAxes(local.mesh());
    } else if (node.row->kind == OpKind::kCollective) {
      VisitCollective(local, node, varying);
    } else {
      VisitCompute(local, node, varying);
    }
  }
  return varying;
}

}  // namespace meshwork
