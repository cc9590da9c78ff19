// How a module says that its tensors are sharded: Shardy's sdy.sharding, with the axes of a mesh by name, and GSPMD's mhlo.sharding, with
// the numbers of devices.
//
// Source: openxla.org/shardy/sharding_representation; HloShardingV2 of OpenXLA's hlo_lexer ("{devices=[2,1,2]<=[4]
// last_tile_dim_replicate}").
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/stablehlo/read/mlir.h"

namespace meshwork::mlir {

// The mesh of the module's sdy.mesh; nothing: it has none. Errors: several meshes that differ; one that is no Mesh.
absl::StatusOr<std::optional<Mesh>> MeshOf(const Module& module);

// The layout that an attribute of one of these names states for a tensor of this rank, as LayoutPin::Parse reads it:
// "{batch,(x,y:(2)2),?}". Nothing: the dict has none of them, or the attribute says nothing. Errors: axes that the mesh lacks, devices
// in an order that its axes do not give.
absl::StatusOr<std::optional<std::string>> LayoutOf(const Attribute& attributes, const Mesh& mesh, int rank);

}  // namespace meshwork::mlir
