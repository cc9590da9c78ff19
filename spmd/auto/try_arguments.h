// Layouts of the arguments of a small program, tried one by one: each is compiled, so that its cost is the true one.
//
//   TriedArguments tried = TryArguments(graph, pinned, options, /*most=*/4096);
//   if (tried.has_tried_all) …   // no layouts of even blocks take less than tried.step.seconds()
//
// A search over tables (spmd/planner/solve_layouts.h) does not know all that Compile does: which collectives run as
// one, which passes then find a cheaper way, what a step holds at its peak. In a small program such things decide, and
// each compile takes about a millisecond.
#pragma once

#include <optional>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/plan/step_cost.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/spmd/planner/work.h"

namespace meshwork {

// What Compile makes of a program.
struct CompiledStep {
  StepCost cost;
  double compute_seconds = 0;  // its floating-point operations
  bool is_fitted = false;      // planned again to fit (spmd/local/fit_memory.h)
  double seconds() const { return cost.seconds + compute_seconds; }
};

CompiledStep CompiledStepOf(const Program& program, const Topology& topology);

// work: what the compile took is taken from it; null: from nothing. Errors: those of Compile.
absl::StatusOr<CompiledStep> CompileStep(const Graph& graph, const CompileOptions& options,
                                         SearchWork* work = nullptr);

struct TriedArguments {
  // The program with pins for the layouts whose step takes least; nothing if no step fits.
  std::optional<Graph> graph;
  CompiledStep step;
  // Layouts of even blocks, for arguments that are not pinned, and Compile has refused none of them.
  bool has_tried_all = false;
};

// most: about how many ops all programs together have that are compiled. If there are too many layouts to try all, the
// search starts with the layouts of `from`, which is `graph` with its arguments pinned, and changes one argument at a
// time. Nothing is tried if the program is large, or the mesh has more than three axes. Only steps within
// options.memory_budget count.
TriedArguments TryArguments(const Graph& graph, const Graph& from, const CompileOptions& options,
                            int64_t most, SearchWork& work);

}  // namespace meshwork
