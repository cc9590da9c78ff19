#include "meshwork/ir/program_cost.h"

#include <variant>
#include <vector>

#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/relayout_cost.h"

namespace meshwork {

Traffic WireTraffic(const Graph& local, const Node& node) {
  const CollectiveSpec collective = CollectiveOf(node);
  if (collective.kind == CollectiveKind::kExchange)
    return ExchangeTraffic(local, node) * DTypeSize(local.value(node.results[0]).global.dtype);
  const RelayoutKind kind = *RelayoutKindOf(collective.kind);
  if (kind == RelayoutKind::kAllToAllV) {
    const ValueInfo& from = local.value(node.operands[0]);
    const Layout& to = *local.value(node.results[0]).layout;
    return AllToAllVTraffic(local.mesh(), from.layout->dims(), to.dims(), from.global.shape) *
           DTypeSize(from.global.dtype);
  }
  int64_t operand_bytes = 0, result_bytes = 0;
  for (ValueId id : node.operands) operand_bytes += local.value(id).type.bytes();
  for (ValueId id : node.results) result_bytes += local.value(id).type.bytes();
  const int64_t bytes =
      WireElementsOf(kind, operand_bytes, result_bytes, local.mesh().GroupSize(collective.axes));
  return {bytes, bytes};
}

int64_t WireBytes(const Graph& local, const Node& node) { return WireTraffic(local, node).busiest(); }

bool Communicates(const Graph& local, const Node& node) {
  if (node.row->kind != OpKind::kCollective) return false;
  return node.row->collective != CollectiveKind::kExchange || ExchangeTraffic(local, node).received > 0;
}

AxisList GroupAxes(const Graph& local, const Node& node) {
  const CollectiveSpec collective = CollectiveOf(node);
  if (collective.has_axes()) return collective.axes;
  if (collective.kind == CollectiveKind::kExchange) return ExchangeAxes(local, node);
  const Layout& from = *local.value(node.operands[0]).layout;
  const Layout& to = *local.value(node.results[0]).layout;
  if (from.is_strided() || to.is_strided()) return from.ShardedAxes().Union(to.ShardedAxes()).ToList();
  return MovedAxes(from.dims(), to.dims());
}

double CollectiveSeconds(const Graph& local, const Node& node, const Topology& topology) {
  return RelayoutCosts(local.mesh(), topology, /*element_bytes=*/1)
      .Seconds(RelayoutKindOf(node.row->collective).value_or(RelayoutKind::kAllToAllV),
               GroupAxes(local, node), WireBytes(local, node));
}

int64_t TimesOf(const Node& node) {
  const AttrValue* length = node.row->kind == OpKind::kControl ? node.attrs.Find("length") : nullptr;
  return length == nullptr ? 1 : std::get<int64_t>(*length);
}

double FlopsOf(const Graph& graph, const Node& node) {
  double inside = 0;
  for (const auto& region : node.regions) inside += static_cast<double>(TimesOf(node)) * CountFlops(*region);
  if (!node.regions.empty()) return inside;
  const std::vector<Type> operands = TypesOf(graph, node.operands), results = TypesOf(graph, node.results);
  if (node.row->flops != nullptr) return node.row->flops({operands, results, node.attrs});
  double elements = 0;
  for (const Type& result : results) elements += static_cast<double>(result.num_elements());
  return elements;
}

}  // namespace meshwork
