#include "ops/program.h"

#include <algorithm>

#include "base/hash.h"
#include "base/status.h"
#include "fmt/ranges.h"
#include "layout/relayout_cost.h"
#include "ops/row.h"
#include "ops/text.h"

namespace meshwork {

std::string Fingerprint(const Graph& graph) { return fmt::format("{:016x}", StableHash(PrintGraph(graph))); }

int64_t WireBytes(const Graph& local, const Node& node) {
  int64_t operand_bytes = 0, result_bytes = 0;
  for (ValueId id : node.operands) operand_bytes += local.value(id).type.bytes();
  for (ValueId id : node.results) result_bytes += local.value(id).type.bytes();
  const bool has_group = node.attrs.Find("axes") != nullptr;
  return WireElementsOf(*RelayoutKindOf(node.row->name), operand_bytes, result_bytes,
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

std::string ExplainCollectives(const Graph& local) {
  std::string out;
  int count = 0;
  for (const Node& node : local.nodes()) {
    if (node.row->kind != OpKind::kCollective) continue;
    const std::string axes = node.attrs.Find("axes") == nullptr
                                 ? ""
                                 : " over " + local.mesh().AxesToString(node.attrs.Get<AxisList>("axes"));
    const ValueInfo& first = local.value(node.operands[0]);
    const std::string what = node.operands.size() == 1
                                 ? first.global.ToString() + " " + first.layout->ToString()
                                 : fmt::format("{} values", node.operands.size());
    out += fmt::format("{:3}. {}{}: {}, {} B on the wire per device\n", ++count, node.row->name, axes, what,
                       WireBytes(local, node));
    std::string_view causes = node.cause;  // one per value, separated by "; "
    while (!causes.empty()) {
      const size_t end = causes.find("; ");
      out += fmt::format("       {}\n", causes.substr(0, end));
      causes.remove_prefix(end == std::string_view::npos ? causes.size() : end + 2);
    }
  }
  return count == 0 ? "no collectives; no device needs what another holds.\n" : out;
}

std::string Explain(const Program& program) {
  const Graph& body = program.body;
  int64_t count = 0;
  for (const CollectiveSummary& s : SummarizeCollectives(body)) count += s.count;
  const std::string where = fmt::format("{} on mesh {}", body.name, body.mesh().ToString());
  std::string text = count == 0 ? fmt::format("{}: {}", where, ExplainCollectives(body))
                                : fmt::format("{}, {} collective{}:\n{}", where, count, count == 1 ? "" : "s",
                                              ExplainCollectives(body));
  if (program.conflicts.empty()) return text;
  return fmt::format("{}layouts that disagree:\n  {}\n", text, fmt::join(program.conflicts, "\n  "));
}

}  // namespace meshwork
