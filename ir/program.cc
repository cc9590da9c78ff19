#include "meshwork/ir/program.h"

#include <algorithm>

#include "fmt/ranges.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/layout/relayout_cost.h"

namespace meshwork {

std::string LeftOutWarning(std::string_view program, const std::vector<LeftOutPass>& left_out) {
  if (left_out.empty()) return "";
  std::vector<std::string_view> passes;
  for (const LeftOutPass& pass : left_out) passes.push_back(pass.pass);
  return fmt::format(
      "warning: Compile: \"{}\" is compiled without {}, which made a wrong program of it. What is compiled "
      "is right, and may send, compute or hold more. Please report it: {}",
      program, fmt::join(passes, ", "), left_out[0].error);
}

std::string Fingerprint(const Graph& graph) { return fmt::format("{:016x}", StableHash(PrintGraph(graph))); }

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

namespace {

void Summarize(const Graph& local, int64_t times, std::vector<CollectiveSummary>& all) {
  for (const Node& node : local.nodes()) {
    for (const auto& region : node.regions) Summarize(*region, SaturatedProduct(times, TimesOf(node)), all);
    if (!Communicates(local, node)) continue;
    const CollectiveSpec collective = CollectiveOf(node);
    const std::string axes = local.mesh().AxesToString(collective.axes);
    auto it = std::find_if(all.begin(), all.end(), [&](const CollectiveSummary& s) {
      return s.type == node.row->name && s.axes == axes;
    });
    if (it == all.end()) it = all.insert(all.end(), {std::string(node.row->name), axes});
    it->count = SaturatedSum(it->count, times);
    const Traffic traffic = WireTraffic(local, node);
    it->bytes = SaturatedSum(it->bytes, SaturatedProduct(times, traffic.busiest()));
    it->received = SaturatedSum(it->received, SaturatedProduct(times, traffic.received));
  }
}

}  // namespace

std::vector<CollectiveSummary> SummarizeCollectives(const Graph& local) {
  std::vector<CollectiveSummary> all;
  Summarize(local, 1, all);
  return all;
}

std::vector<int> CountReaders(const Graph& graph) {
  std::vector<int> readers(graph.values().size(), 0);
  for (const Node& node : graph.nodes())
    for (ValueId operand : node.operands) ++readers[operand];
  for (const VariableUpdate& update : graph.updates()) ++readers[update.value];
  for (const OutputInfo& output : graph.outputs()) ++readers[output.value];
  return readers;
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

double CountFlops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes())
    if (node.row->kind == OpKind::kCompute || node.row->kind == OpKind::kControl)
      flops += FlopsOf(graph, node);
  return flops;
}

}  // namespace meshwork
