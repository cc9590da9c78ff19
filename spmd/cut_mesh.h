// CutMesh cuts axes of the mesh in two where a reshape splits or merges a dim that they shard, so that no
// element has to move.
//
//   mesh [x=4]   %b = reshape %a shape=[2,4]   of %a: f32[8] {x}
//   mesh [x=2*2] %b: f32[2,4] {x:(1)2,x:(2)2}, as if it were pinned to this layout
//
// A cut renames axes and moves no device (mesh/mesh.h). It is made where, in the layouts that Propagate
// finds, the axis lies across the end of a dim and has a common divisor with the rest of the dim. It is kept
// if the program sends less with it. If no reshape needs a cut, this costs one pass over the reshapes.
//
// Sub-axes as in Shardy (openxla/shardy, "sub-axes").
#pragma once

#include <optional>

#include "meshwork/ir/graph.h"
#include "meshwork/spmd/plan_step.h"

namespace meshwork {

// `pinned` on its mesh, cut so that the program sends least; nothing if the mesh is best as it is.
// `propagated` is Propagate's result for `pinned`. Programs are compared first by unasked gathers of more
// than `replication_budget` (spmd/planner/replication.h), then by time if the topology is known, else by bytes.
std::optional<Graph> CutMesh(const Graph& pinned, const Graph& propagated, const StepPlanning& planning);

// Whether CutMesh could cut the mesh for some layouts: an axis has parts, and a reshape splits or merges dims that all
// axes together do not cut evenly.
bool MayCutMesh(const Graph& graph);

}  // namespace meshwork
