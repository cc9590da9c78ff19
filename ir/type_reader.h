// Reads what the text of a program says of a value behind its name:
//
//   f32[64,175] of f32[128,700] {batch,model} gather=allowed
//
// A layout that names a part of an axis cuts the mesh of the program that it is read for.
//
// The functions change their reader and that program, and nothing else, so threads may read different texts.
#pragma once

#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/text_reader.h"

namespace meshwork {

// The type and the layout of a value.
struct Annotation {
  Type type;
  std::optional<Type> global;  // of a block: the type of the whole
  std::optional<LayoutPin> pin;
  Gathering gather = Gathering::kWithinBudget;

  std::optional<Layout> layout() const { return pin.has_value() ? std::optional(pin->layout) : std::nullopt; }
  absl::InlinedVector<DimMode, 4> modes() const {
    return pin.has_value() ? pin->modes : absl::InlinedVector<DimMode, 4>();
  }
};

// `graph`: the program so far.
absl::StatusOr<LayoutPin> ReadLayout(TextReader& text, Graph& graph);

// `is_variable`: the value is a variable, so it may be gathered on use. Errors: a layout of other rank or one
// that the type cannot have, a block without its layout.
absl::StatusOr<Annotation> ReadAnnotation(TextReader& text, Graph& graph, bool is_variable = false);

}  // namespace meshwork
