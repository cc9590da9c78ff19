// Calls a function for each node of a program, those in bodies of loops too.
#pragma once

#include <type_traits>

#include "meshwork/ir/graph.h"

namespace meshwork {

// f(node), or f(graph, node) with the program or the body that the node stands in.
template <typename F>
void ForEachNode(const Graph& graph, const F& f) {
  for (const Node& node : graph.nodes()) {
    if constexpr (std::is_invocable_v<F, const Node&>) f(node);
    else f(graph, node);
    for (const auto& region : node.regions) ForEachNode(*region, f);
  }
}

}  // namespace meshwork
