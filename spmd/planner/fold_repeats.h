// Finds ops and values of a program that are alike, such as those of a model's layers, so that a search looks at them
// once.
//
//   h1 = tanh(x · w1)     h2 = tanh(h1 · w2)     …     h64 = tanh(h63 · w64)      one matmul and one tanh, 60 times;
//                                                                                 those near the ends by themselves
//
// FoldAlike: two values are alike if their types, layouts and marks are equal, and if the ops that make and read them,
// up to `rounds` ops away, are alike, too. This is color refinement (Weisfeiler and Leman, 1968) of so many rounds;
// more rounds would tell each layer from the next by its distance from an end.
//
// SkipRepeats: of layers that repeat in a row, all but the first and last ones are left out. The rest is a program,
// too: an op that reads the last layer left out reads the layer before the first one left out instead. Searches take
// time exponential in the width of a program. The rest is as wide as the whole program; a program with one op per class
// would be wider, because its layers would be circles.
//
//   layers 0 1 2 3 … 62 63, and their gradients 63 62 … 1 0    ->    0 1 62 63, and 63 62 1 0
//
// Time is near-linear in the program. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

struct Fold {
  std::vector<ValueId> value_of;  // per value: the one that stands for it, the first of its kind
  std::vector<int> class_of;      // per node: the number of its class
  std::vector<int> first;         // per class: the node that stands for it, the first one

  bool folds() const { return first.size() < class_of.size(); }
};

// value_marks, node_marks: per value and per node of `graph`, marks that also tell them apart; may be empty. Nodes are
// alike if their rows, attributes and marks are equal, and their operands and results are alike. An op with bodies is
// like no other op.
Fold FoldAlike(const Graph& graph, int rounds, std::span<const uint64_t> value_marks,
               std::span<const uint64_t> node_marks);

// alike: of `graph`. kept: how many of the layers that are alike stay, at least 2: one before the layers that are left
// out, and one after them. If nothing repeats often enough, the result is Unfolded(graph).
Fold SkipRepeats(const Graph& graph, const Fold& alike, int kept = 2);

// Each value and each node stands for itself alone.
Fold Unfolded(const Graph& graph);

// The nodes that stand for their classes. Their operands and results are values that stand for others.
class FoldedNodes {
 public:
  // `graph` must outlive this.
  FoldedNodes(const Graph& graph, const Fold& fold);
  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& operator[](int n) const { return *nodes_[n]; }

 private:
  std::deque<Node> copies_;
  std::vector<const Node*> nodes_;
};

}  // namespace meshwork
