#include "meshwork/ir/replace.h"

#include <utility>
#include <vector>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// Puts the nodes into another order: node order[i] becomes node i.
void Reorder(Graph& graph, std::span<const size_t> order) {
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (const size_t n : order) nodes.push_back(std::move(graph.mutable_node(static_cast<int>(n))));
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const ValueId id : nodes[n].results) graph.mutable_value(id).node = static_cast<int>(n);
    graph.mutable_node(static_cast<int>(n)) = std::move(nodes[n]);
  }
}

}  // namespace

void ReplaceInPlace(Graph& graph, size_t first, std::span<const Replacement> replacements) {
  const auto exchange = [](const Replacement& r, auto& ids) {
    for (ValueId& id : ids)
      if (id == r.value || id == r.by) id = id == r.value ? r.by : r.value;
  };
  const auto node_of = [&](ValueId id) { return static_cast<size_t>(graph.value(id).node); };
  std::vector<std::pair<size_t, size_t>> behind(first);  // per old node: the new nodes behind it, from and to
  size_t begin = first;
  for (const Replacement& r : replacements) {
    const size_t old = node_of(r.value), end = node_of(r.by) + 1;
    MESHWORK_CHECK(old < first && begin < end && behind[old].second == 0, "value {} is not replaced by {}",
                   r.value, r.by);
    MESHWORK_CHECK(graph.value(r.value).type == graph.value(r.by).type, "value {} has another type than {}",
                   r.value, r.by);
    behind[old] = {begin, end};
    exchange(r, graph.mutable_node(static_cast<int>(old)).results);
    for (; begin < end; ++begin) {
      Node& added = graph.mutable_node(static_cast<int>(begin));
      exchange(r, added.operands);
      exchange(r, added.results);
    }
  }
  MESHWORK_CHECK(begin == graph.nodes().size(), "{} nodes replace nothing", graph.nodes().size() - begin);
  std::vector<size_t> order;
  for (size_t n = 0; n < first; ++n) {
    order.push_back(n);
    for (size_t added = behind[n].first; added < behind[n].second; ++added) order.push_back(added);
  }
  Reorder(graph, order);
}

}  // namespace meshwork
