// A layout in the words of its user: names instead of positions. The text form, the JSON form and the specs
// of C++ are read into it, and written from it.
//
//   Resolve(mesh, {{"batch", UNSHARDED}, {}}, "{batch,_}")   // where: what errors quote
//
// Used within the room only.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

struct PartialSpec {
  ReduceOp op;
  std::vector<std::string> axes;
};

struct SpelledLayout {
  LayoutSpec dims;
  std::vector<PartialSpec> owed = {};
};

// Binds the names to the axes of `mesh`, which is cut where names stand for parts of axes.
// Errors: an axis the mesh does not have (with the nearest name) or that is cut otherwise; an axis used
// twice; a factor below 1; a dim of one factor, or of more than 2^40 elements; reductions of two kinds.
absl::StatusOr<LayoutPin> Resolve(const Mesh& mesh, const SpelledLayout& layout, const std::string& where);

// Law: Resolve(pin.layout.mesh(), Spell(pin), …) == pin.
SpelledLayout Spell(const LayoutPin& pin);

// The text form: "{batch,?,8@x*8 | sum:model}".
std::string ToString(const SpelledLayout& layout);

// The pin's layout. Errors: the pin leaves a dim open.
absl::StatusOr<Layout> Locked(absl::StatusOr<LayoutPin> pin);

}  // namespace meshwork
