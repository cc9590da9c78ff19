#include "meshwork/ir/program.h"

#include <algorithm>

#include "fmt/ranges.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"

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

std::vector<CollectiveSummary> SummarizeCollectives(const Graph& local) {
  std::vector<CollectiveSummary> all;
  ForCollectives(local, [&](const Graph& program, const Node& node, int64_t times) {
    const std::string axes = program.mesh().AxesToString(CollectiveOf(node).axes);
    auto it = std::find_if(all.begin(), all.end(), [&](const CollectiveSummary& s) {
      return s.type == node.row->name && s.axes == axes;
    });
    if (it == all.end()) it = all.insert(all.end(), {std::string(node.row->name), axes});
    it->count = SaturatedSum(it->count, times);
    const Traffic traffic = WireTraffic(program, node);
    it->bytes = SaturatedSum(it->bytes, SaturatedProduct(times, traffic.busiest()));
    it->received = SaturatedSum(it->received, SaturatedProduct(times, traffic.received));
  });
  return all;
}

double CountFlops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes())
    if (node.row->kind == OpKind::kCompute || node.row->kind == OpKind::kControl ||
        node.row->collective == CollectiveKind::kExchange)
      flops += FlopsOf(graph, node);
  return flops;
}

}  // namespace meshwork
