// Layouts by the names of tensors, so that the code of a model names no axis:
//
//   Graph g(mesh);
//   g.SetLayouts({.layouts = {{"*/query/kernel", {UNSHARDED, "model"}}, {"x", {"batch", UNSHARDED}}},
//                 .missing_axes = MissingAxes::kShardNothing});
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// Layouts of inputs and variables, by name or by a pattern of names (base/name_patterns.h). A pattern applies only to
// tensors that have as many dims as the layout. If several entries fit, the last one counts.
using NamedLayouts = std::vector<std::pair<std::string, LayoutSpec>>;

// The layout for a tensor; null: there is none.
const LayoutSpec* FindLayout(const NamedLayouts& layouts, const std::string& name, int rank);

// Errors: a name or a pattern that fits none of `tensors`; a name whose tensor has another rank than the layout.
absl::Status CheckLayouts(const NamedLayouts& layouts,
                          const std::vector<std::pair<std::string, Type>>& tensors);

// `spec`, or {} if it cuts nothing, so that the rules of the graph decide.
LayoutSpec UnlessWhole(LayoutSpec spec);

// The meaning of an axis that a layout names and the mesh lacks.
enum class MissingAxes : uint8_t {
  kRefused,       // a mistake
  kShardNothing,  // an axis of size 1: one program for meshes with and without it
};

// The layouts of a program's inputs and variables whose declarations state none.
struct LayoutRules {
  NamedLayouts layouts = {};  // of inputs and variables without a layout of their own
  bool open = false;          // others without one: the compiler chooses (OPEN); else whole on every device
  MissingAxes missing_axes = MissingAxes::kRefused;
  // Inputs that no pattern fits: dim 0, which counts the examples, lies over these axes.
  std::vector<std::string> batch = {};
  // Variables that no pattern fits and that have `least_in_blocks` elements or more are kept in blocks over these axes:
  // along the longest dim that the axes divide, or along the longest dim if they divide none. Each op gathers the
  // variables that it needs (Gathering::kOnUse).
  std::vector<std::string> variables = {};
  int64_t least_in_blocks = 1024;

  // For an input or a variable that is declared without a layout.
  struct Ruled {
    LayoutSpec layout;
    bool in_blocks = false;  // a variable that `variables` keeps in blocks; ops gather it
  };
  Ruled LayoutOf(const Mesh& mesh, const std::string& name, const Type& type, bool is_variable) const;
};

}  // namespace meshwork
