// The JSON form of meshes: the axes in order; a cut axis has the sizes of its parts.
//
//   [batch=4, model=2*4]
//   {"axes": [{"name": "batch", "size": 4}, {"name": "model", "size": [2, 4]}]}
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/mesh/mesh.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

nlohmann::json ToJson(const Mesh& mesh);

// Law: MeshFromJson(ToJson(mesh)) == mesh. Errors: JSON of another form, with the place; those of
// Mesh::Create and Mesh::Cut.
absl::StatusOr<Mesh> MeshFromJson(const nlohmann::json& json);

}  // namespace meshwork
