// Meshes that nobody has to name: FindMesh lays out a program as FindLayouts does (auto_layouts.h), on the mesh that it
// has, and on meshes whose axes are cut in parts, so that one part may cut a batch and another the columns of a weight.
//
//   [devices=32]   ->   [devices=4*8]: x {devices:(1)4,_}, w {_,devices:(4)8}
//
// A cut moves no device: "devices:(4)8" are eight devices in a row, "devices:(1)4" four that are eight apart. So the
// program's mesh says which devices are near each other, and every way to factor an axis, in every order, is a number
// of cuts. They are tried one by one: all first cuts, then all further cuts of the best mesh, until a step takes no
// less time or the mesh is cut often enough.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/spmd/auto/auto_layouts.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

struct FindMeshOptions {
  int most = 3;       // plans that are returned
  int most_cuts = 4;  // of the mesh, one after the other
  // Called before each mesh is searched, which takes as long as FindLayouts.
  std::function<void(const Mesh& mesh)> on_search = nullptr;
};

// Plans as FindLayouts returns them; of those that cost the same, the one on the mesh that is cut less. Errors: those
// of FindLayouts on the program's own mesh; but RESOURCE_EXHAUSTED only if no plan fits on any mesh. Thread-safe.
absl::StatusOr<std::vector<FoundLayouts>> FindMesh(const Graph& graph, const CompileOptions& options = {},
                                                   const FindMeshOptions& find = {});

}  // namespace meshwork
