// Copying a graph while changing it: how passes are written.
//
//   Rewriter r(graph);
//   for (const Node& node : graph.nodes()) {
//     if (IsDead(node)) continue;
//     r.Copy(node);
//   }
//   return r.Finish();
//
// Arguments are copied at the start, updates and outputs by Finish, each through the map from old
// values to new ones.
#pragma once

#include <span>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// A copy of a graph in the making.
class Rewriter {
 public:
  // `more`: about how many nodes the copy gets that `from` does not have, so that its list of nodes need not grow.
  explicit Rewriter(const Graph& from, size_t more = 0);

  Graph& to() { return to_; }
  // REQUIRES: the value's definition has been copied, or Set.
  ValueId Map(ValueId from) const;
  absl::InlinedVector<ValueId, 4> Map(std::span<const ValueId> from) const;
  // Uses of `from` read `to` from now on.
  void Set(ValueId from, ValueId to) { map_[from] = to; }
  // Copies the node with mapped operands and its results' infos; returns its index.
  int Copy(const Node& node);
  Graph Finish() &&;

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> map_;
};

// Appends a node of one program to another, with its results' infos. `map`: per value of `from`, its value in
// `to`; the entries of the results are filled in. REQUIRES: the entries of the operands are there.
void CopyNode(const Graph& from, const Node& node, Graph& to, std::vector<ValueId>& map);

// The values `wanted` with `to` in place of `from`: appends copies of the nodes that lie between `from` and `wanted`.
// REQUIRES: `from` and `to` have the same type.
std::vector<ValueId> AppendWith(Graph& graph, ValueId from, ValueId to, std::span<const ValueId> wanted);

}  // namespace meshwork
