// The JSON form of layouts and pins. A dim is the list of its axes, major to minor; a strided dim is the list
// of its factors; a dim of a pin may also be "?" or "MATCH".
//
//   {batch, _, 8@x*4 | sum:model}
//   {"dims": [["batch"], [], [{"size": 8, "axes": ["x"]}, {"size": 4, "axes": []}]],
//    "partial": {"op": "sum", "axes": ["model"]}}
//
// "partial" is left out of a whole layout, "axes" may be left out of a factor. Parts of axes are named as in
// text, "model:(2)4". The mesh is not included: it has a JSON form of its own (mesh/json.h).
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/layout/layout.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

nlohmann::json ToJson(const LayoutPin& pin);
nlohmann::json ToJson(const Layout& layout);

// Laws: LayoutFromJson(layout.mesh(), ToJson(layout)) == layout, and the same for pins.
// Errors: JSON of another form, with the place; those of Layout::Parse.
absl::StatusOr<LayoutPin> LayoutPinFromJson(const Mesh& mesh, const nlohmann::json& json);
absl::StatusOr<Layout> LayoutFromJson(const Mesh& mesh, const nlohmann::json& json);

}  // namespace meshwork
