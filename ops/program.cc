#include "ops/program.h"

#include <algorithm>

#include "base/hash.h"
#include "base/status.h"
#include "layout/relayout_cost.h"
#include "ops/row.h"
#include "ops/text.h"

namespace meshwork {

std::string Fingerprint(const Graph& graph) { return fmt::format("{:016x}", StableHash(PrintGraph(graph))); }

int64_t WireBytes(const Graph& local, const Node& node) {
  const RelayoutKind kind = *RelayoutKindOf(node.row->name);
  if (kind == RelayoutKind::kAllToAllV) {
    const ValueInfo& from = local.value(node.operands[0]);
    const Layout& to = *local.value(node.results[0]).layout;
    return AllToAllVElements(local.mesh(), from.layout->dims(), to.dims(), from.global.shape) *
           DTypeSize(from.global.dtype);
  }
  int64_t operand_bytes = 0, result_bytes = 0;
  for (ValueId id : node.operands) operand_bytes += local.value(id).type.bytes();
  for (ValueId id : node.results) result_bytes += local.value(id).type.bytes();
  const bool has_group = node.attrs.Find("axes") != nullptr;
  return WireElementsOf(kind, operand_bytes, result_bytes,
                        has_group ? local.mesh().GroupSize(node.attrs.Get<AxisList>("axes")) : 1);
}

AxisList GroupAxes(const Graph& local, const Node& node) {
  if (node.attrs.Find("axes") != nullptr) return node.attrs.Get<AxisList>("axes");
  const Layout& from = *local.value(node.operands[0]).layout;
  const Layout& to = *local.value(node.results[0]).layout;
  if (from.is_strided() || to.is_strided()) return from.ShardedAxes().Union(to.ShardedAxes()).ToList();
  return MovedAxes(from.dims(), to.dims());
}

double CollectiveSeconds(const Graph& local, const Node& node, const Topology& topology) {
  return RelayoutCosts(local.mesh(), topology, /*element_bytes=*/1)
      .Seconds(*RelayoutKindOf(node.row->name), GroupAxes(local, node), WireBytes(local, node));
}

std::vector<CollectiveSummary> SummarizeCollectives(const Graph& local) {
  std::vector<CollectiveSummary> all;
  for (const Node& node : local.nodes()) {
    if (node.row->kind != OpKind::kCollective) continue;
    const std::string axes = node.attrs.Find("axes") == nullptr
                                 ? std::string("()")
                                 : local.mesh().AxesToString(node.attrs.Get<AxisList>("axes"));
    auto it = std::find_if(all.begin(), all.end(), [&](const CollectiveSummary& s) {
      return s.type == node.row->name && s.axes == axes;
    });
    if (it == all.end()) it = all.insert(all.end(), {std::string(node.row->name), axes});
    ++it->count;
    it->bytes += WireBytes(local, node);
  }
  return all;
}

double FlopsOf(const Graph& graph, const Node& node) {
  const std::vector<Type> operands = TypesOf(graph, node.operands), results = TypesOf(graph, node.results);
  if (node.row->flops != nullptr) return node.row->flops({operands, results, node.attrs});
  double elements = 0;
  for (const Type& result : results) elements += static_cast<double>(result.num_elements());
  return elements;
}

double CountFlops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes())
    if (node.row->kind == OpKind::kCompute) flops += FlopsOf(graph, node);
  return flops;
}

}  // namespace meshwork
