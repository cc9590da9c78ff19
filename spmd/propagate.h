// Propagate gives every value of a global program a layout.
//
// The user's layouts are fixed, except for the dims that a pin leaves open. From them axes flow along the
// letters of the ops' rules, forward and backward, elementwise ops first. If a letter meets two layouts, or
// two letters of an op want one axis, the layout of the larger tensor wins. A dim that nothing reaches stays
// whole. The order is fixed, so the result is deterministic, and each decision remembers the op that caused
// it. Tensors that disagree about a letter in the end are reported as conflicts: one of them will move. A
// strided dim flows like a plain dim, except along letters of which a device must hold one block
// (spmd/planner/strided.h). Dims that a reshape merges or splits get layouts in which no element moves
// (layout/reshape.h), if possible. Uses of variables that are gathered on use (gather_on_use.h) follow first
// the op's other tensors, and then the variable.
//
// Follows the factor propagation of Shardy (openxla/shardy, "sharding propagation") and GSPMD
// (arXiv 2105.04663, section 3.5).
#pragma once

#include <string>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// The dim from which the axes of a dim come; the dim itself if the user has fixed them.
struct Origin {
  ValueId value = kNoValue;  // none: nothing reached the dim, it is whole
  int dim = 0;

  bool operator==(const Origin&) const = default;
};

struct PropagateResult {
  Graph graph;                         // every value has a layout, without axes of size 1
  std::vector<std::string> decisions;  // "value 3 dim 0 = (batch): letter m of matmul (mlp.cc:12)"
  // "matmul (mlp.cc:12): letter k lies on (model) in %w and on (batch) in %x"
  std::vector<std::string> conflicts;
  std::vector<std::vector<Origin>> origins;  // per value and dim
};

PropagateResult Propagate(const Graph& graph);

}  // namespace meshwork
