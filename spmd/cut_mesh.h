// CutMesh cuts axes of the mesh in two where a reshape splits or merges a dim that they shard, so that no
// element has to move.
//
//   mesh [x=4]   %b = reshape %a shape=[2,4]   of %a: f32[8] {x}
//   mesh [x=2*2] %b: f32[2,4] {x:(1)2,x:(2)2}, as one who pins it so would have it
//
// A cut renames axes and moves no device (mesh/mesh.h). It is made where the axis lies across the end of a
// dim, as Propagate finds the tensors sharded, and shares a divisor with what is left of the dim; it is kept
// where the program sends less with it. Where no reshape is in its axes' way this costs one look at each.
//
// Sub-axes as in Shardy (openxla/shardy, "sub-axes").
#pragma once

#include <cstdint>
#include <optional>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// `pinned` on its mesh, cut so that it sends least; nothing if its mesh is best as it is. `propagated` is
// Propagate's result for it. By the topology the least time counts, else the fewest bytes; first of all, that
// nothing of more than `replication_budget` is gathered unasked (replication.h).
std::optional<Graph> CutMesh(const Graph& pinned, const Graph& propagated, const Topology& topology,
                             int64_t replication_budget);

}  // namespace meshwork
