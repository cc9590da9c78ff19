// A program of another system, as StableHLO, as a graph: JAX's first of all.
//
//   # Python: the generic form, with the names and lines of the function
//   module = jax.jit(step, donate_argnums=0).lower(params, batch).compiler_ir("stablehlo")
//   open("step.mlir", "w").write(module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True))
//
//   MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile("step.mlir"));
//   MESHWORK_ASSIGN_OR_RETURN(Graph step, ReadStableHlo(text, {.mesh = Mesh::Parse("batch=2,model=2").value()}));
//
// The function `main` becomes the graph: its arguments inputs or variables, its results outputs or updates. What it calls is put in
// place. A `while` that counts, as a scan of JAX's, becomes a scan, which has gradients; so graphs that were read may be
// differentiated and trained here. docs/from-jax.md has the ops that are read, and differences of the numbers.
//
// Names. An argument is called as in the text's locations, params['w'] as params/w; without locations arg0, arg1, … A result is
// called as jax.result_info says: result, result/0, result/loss; without it result/0, …
//
// Layouts are those of the text, sdy.sharding or mhlo.sharding. Nodes have the lines of the Python code, if the text
// has them, else those of the text.
//
// Pure; thread-safe. Source: StableHLO specification, openxla.org/stablehlo/spec.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/layout_rules.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

struct ReadStableHloOptions {
  // Nothing: that of the text, or one device if the text has none.
  std::optional<Mesh> mesh = {};
  // Arguments and results by their names, or by all that begin with NAME/: {"params", "result/0"} says that each argument
  // params/… is a variable, and holds after the step what result/0/… gives. These results are no outputs. An argument whose
  // memory the text gives to a result (tf.aliasing_output, of donated arguments) is such a variable without being named.
  std::vector<std::pair<std::string, std::string>> updates = {};
  // Names, or patterns of names (base/name_patterns.h), of further arguments that are variables: weights that the program only
  // reads.
  std::vector<std::string> variables = {};
  // Of arguments for which the text has no layout.
  LayoutRules layouts = {};
  // Gradients of scans keep the carries and slices of each iteration and compute the rest again (ScanOptions::recompute). The text
  // does not say where JAX would (jax.checkpoint).
  bool recompute_scans = false;
  std::string file_name = "module";  // what errors call the text
};

// Variables are zeros until they are set. Errors: the text is no module in generic form; an op or a form of it is not read (calls of other
// libraries, unknown sizes, complex numbers); types contradict each other: these name the line of the text. Names of `updates` and
// `variables` that fit nothing.
absl::StatusOr<Graph> ReadStableHlo(std::string_view text, const ReadStableHloOptions& options = {});

// The ops that are read, by name, in alphabetical order.
std::vector<std::string> OpsOfStableHlo();

// "params['w'][0].mu" as "params/w/0/mu": a path of JAX's (jax.tree_util.keystr) as the name of an argument.
std::string NameOfPath(std::string_view path);

}  // namespace meshwork
