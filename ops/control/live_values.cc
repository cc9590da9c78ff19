#include "meshwork/ops/control/live_values.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ops/control/loops.h"

namespace meshwork {
namespace {

// Nothing if the program has no dead code. Bodies stay as they are.
std::optional<Graph> WithoutDeadCode(const Graph& program) {
  const std::vector<bool> live = LiveValues(program);
  const auto is_live = [&](const Node& node) {
    return std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return live[id]; });
  };
  if (std::all_of(program.nodes().begin(), program.nodes().end(), is_live)) return std::nullopt;
  Rewriter rewriter(program);
  for (const Node& node : program.nodes())
    if (is_live(node)) rewriter.Copy(node);
  return std::move(rewriter).Finish();
}

}  // namespace

std::vector<bool> LiveValues(const Graph& graph) {
  std::vector<bool> live(graph.values().size(), false);
  for (const VariableUpdate& update : graph.updates()) live[update.value] = true;
  for (const OutputInfo& output : graph.outputs()) live[output.value] = true;
  std::vector<bool> live_loops;  // of an opened program: the marks of a live loop are all live
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const size_t loop = IsMark(node) ? static_cast<size_t>(LoopOf(node)) : 0;
    if (IsMark(node)) live_loops.resize(std::max(live_loops.size(), loop + 1), false);
    if (std::none_of(node.results.begin(), node.results.end(), [&](ValueId id) { return live[id]; }) &&
        !(IsMark(node) && live_loops[loop]))
      continue;
    if (IsMark(node)) live_loops[loop] = true;
    // A live node keeps all its results, also those that nothing reads.
    for (ValueId id : node.results) live[id] = true;
    for (ValueId id : node.operands) live[id] = true;
  }
  return live;
}

Graph DropDeadCode(Graph graph) {
  if (std::any_of(graph.nodes().begin(), graph.nodes().end(), IsControl))
    return WithRegions(graph, [](const Graph& body) { return WithoutDeadCode(body).value_or(body); });
  return WithoutDeadCode(graph).value_or(std::move(graph));
}

}  // namespace meshwork
