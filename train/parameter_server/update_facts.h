// The parts of a training program that parameter servers can compute. Only this room uses it.
//
// A variable is of one of two kinds. A *shared scalar* (a step count, a loss scale, a metric's sum) is kept by every
// server. Any other variable is kept in pieces: by rows.
//
// A node works *by row* if row i of its results (dim 0) depends only on row i of some operands, on scalars, and on
// values that all servers have. The rules of the ops say so: the letter of dim 0. Products never count, so that no
// server computes a part of the model.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

enum class ArgumentKind : uint8_t { kInput, kShared, kRows };

struct UpdateFacts {
  // Keeps a reference to the graph.
  explicit UpdateFacts(const Graph& graph);

  const Graph& graph;

  // Per argument.
  std::vector<ArgumentKind> kinds;
  std::vector<ValueId> updates;  // what it holds after the step; kNoValue: it is not updated
  std::vector<bool>
      is_readable;  // workers have it: it is trainable, shared, never updated, or an output depends on it
  std::vector<int> argument_of;  // per value: the argument that it is, or -1

  // Per node.
  std::vector<bool> is_by_row;
  std::vector<std::vector<bool>> row_operands;  // of a node by row: which operands have its rows

  // Per value.
  std::vector<bool> from_input;  // it depends on an input
  std::vector<bool> is_shared;   // every server has it: it depends on constants and shared scalars alone
  std::vector<int> state;        // an argument that it depends on and that no worker has; -1: none
  // Whether it is computed, by row, of a variable that is updated. If such a value were pushed, the pushes of others
  // meanwhile would be lost.
  std::vector<bool> is_own;
  std::vector<std::set<int>> scalars;  // the shared scalars that are updated and that it depends on

 private:
  void FindKinds();
  void FindReadable();
  void FindNode(size_t n);
  bool IsByRow(const Node& node, std::vector<bool>& rows) const;
  bool IsScalarNode(const Node& node) const;
};

}  // namespace meshwork
