// Ops and values of a program that are alike, as those of a model's layers are, so that what is asked of each is asked
// once.
//
//   h1 = tanh(x · w1)     h2 = tanh(h1 · w2)     …     h64 = tanh(h63 · w64)      one matmul and one tanh, 60 times;
//                                                                                 those near the ends by themselves
//
// FoldAlike: two values are alike if their types, layouts and marks are, and all that lies up to so many ops away: what
// makes them, and what reads them. This is color refinement (Weisfeiler and Leman, 1968) of so many rounds; more would
// tell each layer from the next by how far it lies from an end.
//
// SkipRepeats: what repeats in a row is left out but for its first and last times. The rest is a program, too: what reads
// the last layer that is left out reads the one before the first. Its width, in which searches take exponential time, is
// that of the whole, while a program in which each class is one op would be wider: its layers would be circles.
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

// value_marks, node_marks: per value and per node of `graph`, what else tells them apart; may be empty. Nodes are alike
// if their rows, attributes, marks, and the classes of their operands and results are. Ops with bodies are like no
// other.
Fold FoldAlike(const Graph& graph, int rounds, std::span<const uint64_t> value_marks,
               std::span<const uint64_t> node_marks);

// alike: of `graph`. kept: how many layers that are alike stay, at least 2: one before those that are left out, and one
// behind. Where nothing repeats often enough, each by itself.
Fold SkipRepeats(const Graph& graph, const Fold& alike, int kept = 2);

// Each by itself.
Fold Unfolded(const Graph& graph);

// The nodes that stand for the others, on values that stand for others.
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
