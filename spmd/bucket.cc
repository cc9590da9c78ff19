#include "spmd/bucket.h"

#include <algorithm>
#include <compare>
#include <map>
#include <queue>
#include <string_view>

#include "base/status.h"
#include "ops/row.h"

namespace meshwork {
namespace {

// Per node: how many collectives lie on the longest way from its results to the end of the step.
// Collectives of equal depth do not depend on each other, so any of them may be joined without a cycle.
std::vector<int> DepthFromEnd(const Graph& graph) {
  std::vector<int> below(graph.values().size(), 0), depth(graph.nodes().size(), 0);
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    for (ValueId id : node.results) depth[i] = std::max(depth[i], below[id]);
    const int above = depth[i] + (node.row->kind == OpKind::kCollective ? 1 : 0);
    for (ValueId id : node.operands) below[id] = std::max(below[id], above);
  }
  return depth;
}

// Per node: whether an update of a variable depends on it.
std::vector<bool> ChangesState(const Graph& graph) {
  std::vector<bool> value(graph.values().size(), false), node_changes(graph.nodes().size(), false);
  for (const VariableUpdate& update : graph.updates()) value[update.value] = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    for (ValueId id : graph.nodes()[i].results) node_changes[i] = node_changes[i] || value[id];
    if (!node_changes[i]) continue;
    for (ValueId id : graph.nodes()[i].operands) value[id] = true;
  }
  return node_changes;
}

// Nodes that are written as one.
using Unit = std::vector<int>;

// What collectives must have in common to be one.
struct Key {
  std::string_view op;
  int depth;
  bool changes_state;
  DType dtype;
  std::vector<int> axes;
  int64_t dim;         // -1 if the op has none
  ReduceOp reduction;  // kSum if the op has none

  auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): it misreads <=>
};

// Gathers that others follow are left alone: joined, they would hold what is gathered for longer.
bool MayBeJoined(const Node& node, int depth) {
  const std::string_view op = node.row->name;
  return op == "all_reduce" || op == "reduce_scatter" || (op == "all_gather" && depth == 0);
}

std::vector<Unit> Group(const Graph& graph) {
  const std::vector<int> depth = DepthFromEnd(graph);
  const std::vector<bool> state = ChangesState(graph);
  std::map<Key, size_t> open;
  std::vector<Unit> units;
  for (int i = 0; i < static_cast<int>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[i];
    if (!MayBeJoined(node, depth[i])) {
      units.push_back({i});
      continue;
    }
    const AxisList& axes = node.attrs.Get<AxisList>("axes");
    const AttrValue* dim = node.attrs.Find("dim");
    const AttrValue* reduction = node.attrs.Find("op");
    const auto [it, is_new] = open.try_emplace(
        {.op = node.row->name,
         .depth = depth[i],
         .changes_state = state[i],
         .dtype = graph.value(node.operands[0]).type.dtype,
         .axes = {axes.begin(), axes.end()},
         .dim = dim == nullptr ? -1 : std::get<int64_t>(*dim),
         .reduction = reduction == nullptr ? ReduceOp::kSum : std::get<ReduceOp>(*reduction)},
        units.size());
    if (is_new) units.push_back({i});
    else units[it->second].push_back(i);
  }
  return units;
}

// Orders units so that every operand comes first; among the ready ones the one whose last node
// came first in the program is next.
std::vector<Unit> Schedule(const Graph& graph, std::vector<Unit> units) {
  std::vector<int> unit_of(graph.nodes().size());
  for (size_t u = 0; u < units.size(); ++u)
    for (int node : units[u]) unit_of[node] = static_cast<int>(u);
  std::vector<std::vector<int>> readers(units.size());
  std::vector<int> waits(units.size(), 0);
  for (size_t u = 0; u < units.size(); ++u) {
    for (int node : units[u]) {
      for (ValueId id : graph.nodes()[node].operands) {
        if (graph.value(id).node < 0) continue;
        readers[unit_of[graph.value(id).node]].push_back(static_cast<int>(u));
        ++waits[u];
      }
    }
  }
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> ready;
  for (size_t u = 0; u < units.size(); ++u)
    if (waits[u] == 0) ready.push({units[u].back(), static_cast<int>(u)});
  std::vector<Unit> order;
  while (!ready.empty()) {
    const int u = ready.top().second;
    ready.pop();
    order.push_back(units[u]);
    for (int reader : readers[u])
      if (--waits[reader] == 0) ready.push({units[reader].back(), reader});
  }
  MESHWORK_CHECK(order.size() == units.size(), "a bucket waits for itself");
  return order;
}

// Appends the unit's nodes to `to` as one.
void Append(const Graph& from, const Unit& unit, Graph& to, std::vector<ValueId>& map) {
  Node joined = from.nodes()[unit[0]];
  joined.operands.clear();
  std::vector<ValueInfo> infos;
  std::vector<ValueId> results;
  for (size_t i = 0; i < unit.size(); ++i) {
    const Node& node = from.nodes()[unit[i]];
    for (ValueId id : node.operands) joined.operands.push_back(map[id]);
    for (ValueId id : node.results) {
      infos.push_back(from.value(id));
      results.push_back(id);
    }
    if (i > 0 && !node.cause.empty()) joined.cause += "; " + node.cause;
  }
  const int index = to.AddNode(std::move(joined), std::move(infos));
  for (size_t i = 0; i < results.size(); ++i) map[results[i]] = to.nodes()[index].results[i];
}

}  // namespace

Graph BucketReductions(const Graph& local) {
  Graph to(local.mesh());
  to.name = local.name;
  std::vector<ValueId> map(local.values().size(), kNoValue);
  for (const Argument& argument : local.arguments())
    map[argument.value] =
        to.AddArgument(local.value(argument.value), argument.is_variable, argument.initializer);
  for (const Unit& unit : Schedule(local, Group(local))) Append(local, unit, to, map);
  for (const VariableUpdate& update : local.updates()) to.AddUpdate({update.argument, map[update.value]});
  for (const OutputInfo& output : local.outputs()) to.AddOutput({output.name, map[output.value]});
  return to;
}

}  // namespace meshwork
