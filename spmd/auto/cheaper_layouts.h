// Finds layouts pinned by the user that, each changed by itself, would make a step cheaper.
#pragma once

#include <cstdint>

#include "meshwork/ir/plan/explain.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

struct CheaperLayoutsOptions {
  int most = 3;  // layouts that are returned, at most
  // For programs that the planner does not know: the most nodes, all together, of the compiles that choose among
  // layouts. At least one layout is tried.
  int64_t most_nodes = int64_t{1} << 18;
};

// Looks for other layouts of the values pinned in `global` – an axis of a dim dropped, moved to another dim, or a free
// axis added. Returns the best layout for each value, at most `most`, the cheapest first: those with which the step
// sends less (or takes less time, if options.topology is known) without a device computing more. An optimizer's state
// changes with its weight.
//
// The planner says what each layout would save (CostsOfChanges, spmd/planner/solve_layouts.h), which takes less time
// than a compile. Then the changes that save most, of each kind of change, are compiled, until enough are found, or the
// compiles together are too large: up to some dozens for a small program; for a program of many thousand ops one, or
// two if the first is not cheaper. If the planner does not know the program, because it has loops or is on a mesh of
// more than two axes, it is compiled with about 64 layouts, those of the largest values; with fewer if it is large, see
// most_nodes.
//
// If layers repeat (spmd/planner/fold_repeats.h), a value changes together with the values like it in other layers, and
// a program of few of the layers (short_program.h) says what each change would save. With a memory budget, neither is
// done.
// REQUIRES: `program` is the result of Compile for `global` with these options. Pure, thread-safe.
LayoutSearch CheaperLayouts(const Graph& global, const Program& program, const CompileOptions& options = {},
                            const CheaperLayoutsOptions& cheaper = {});

}  // namespace meshwork
