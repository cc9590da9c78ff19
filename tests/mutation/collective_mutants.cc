#include "mutation/collective_mutants.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/ir/local.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

// The dim of the result that a node cuts, or -1.
int CutDim(const Node& node) {
  if (node.attrs.Find("dim") == nullptr && node.attrs.Find("to") == nullptr) return -1;
  if (node.row->name == "all_gather") return -1;
  return static_cast<int>(node.attrs.Get<int64_t>(node.row->name == "all_to_all" ? "to" : "dim"));
}

// A dim is cut by its axes in another order, also in its layout.
void OtherOrder(const MutantWriter& writer, const Node& node, const AxisList& axes) {
  const int d = CutDim(node);
  if (d < 0) return;
  const ValueInfo& result = writer.local().value(node.results[0]);
  AxisList dim = result.layout->dim(d);
  std::reverse(dim.end() - static_cast<int64_t>(axes.size()), dim.end());
  const Layout lie = result.layout->WithDim(d, dim);
  if (lie.LocalShape(result.global.shape) != result.type.shape) return;
  Attrs attrs = node.attrs;
  attrs.Set("axes", AxisList(axes.rbegin(), axes.rend()));
  writer.AddChanged("order", node, attrs, [&](size_t, ValueInfo& info) { info.layout = lie; });
}

// Another block than the right one: the axis is replaced in the result's layout, too.
void OtherBlock(const MutantWriter& writer, const Node& node, const AxisList& axes, int other) {
  const Graph& local = writer.local();
  const int d = CutDim(node);
  if (d < 0) return;
  const ValueInfo& result = local.value(node.results[0]);
  const Mesh& mesh = local.mesh();
  AxisList dim = result.layout->dim(d), replaced = axes;
  if (mesh.axis(other).size != mesh.axis(axes.back()).size) return;
  if (result.layout->ShardedAxes().Union(result.layout->PartialAxes()).Contains(other)) return;
  std::replace(dim.begin(), dim.end(), axes.back(), other);
  std::replace(replaced.begin(), replaced.end(), axes.back(), other);
  const Layout lie = result.layout->WithDim(d, dim);
  if (lie.LocalShape(result.global.shape) != result.type.shape) return;
  Attrs attrs = node.attrs;
  attrs.Set("axes", replaced);
  writer.AddChanged("block", node, attrs, [&](size_t, ValueInfo& info) { info.layout = lie; });
}

}  // namespace

void OtherReductions(const MutantWriter& writer, const Node& node) {
  for (const ReduceOp op : kAllReduceOps) {
    if (op == node.attrs.Get<ReduceOp>("op") ||
        !CheckReduction(op, writer.local().value(node.operands[0]).type).ok())
      continue;
    Attrs attrs = node.attrs;
    attrs.Set("op", op);
    writer.AddChanged(node.row->name == "mask_padding" ? "identity" : "operation", node, attrs);
  }
}

void OtherAxes(const MutantWriter& writer, const Node& node) {
  const AxisList axes = node.attrs.Get<AxisList>("axes");
  const Mesh& mesh = writer.local().mesh();
  auto add = [&](std::string kind, const AxisList& other) {
    Attrs attrs = node.attrs;
    attrs.Set("axes", other);
    writer.AddChanged(std::move(kind), node, attrs);
  };
  if (axes.size() > 1) {
    add("order", AxisList(axes.rbegin(), axes.rend()));
    add("axes", AxisList(axes.begin(), axes.end() - 1));
    OtherOrder(writer, node, axes);
  }
  for (int other = 0; other < mesh.num_axes(); ++other) {
    if (AxisSet(axes).Contains(other)) continue;
    AxisList more = axes, replaced = axes;
    more.push_back(other);
    replaced.back() = other;
    add("axes", more);
    add("group", replaced);
    OtherBlock(writer, node, axes, other);
  }
}

void FewerDims(const MutantWriter& writer, const Node& node) {
  const auto& dims = node.attrs.Get<std::vector<int64_t>>("dims");
  for (size_t i = 0; i < dims.size() && dims.size() > 1; ++i) {
    std::vector<int64_t> fewer = dims;
    fewer.erase(fewer.begin() + static_cast<int64_t>(i));
    Attrs attrs = node.attrs;
    attrs.Set("dims", fewer);
    writer.AddChanged("mask", node, attrs);
  }
}

}  // namespace meshwork
