// Finds layouts of the user's that, each changed by itself, would make a step cheaper.
#pragma once

#include <cstdint>

#include "meshwork/ir/plan/explain.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

struct CheaperOptions {
  int most = 3;  // layouts that are returned, at most
  // Of programs that the planner does not know: so many nodes the compiles together have at most that choose among the
  // layouts; one is tried at least.
  int64_t most_nodes = int64_t{1} << 18;
};

// Looks for other layouts of the values pinned in `global` – an axis of a dim dropped, moved to another dim, or a free axis
// added. Returns the best layout for each value, at most `most`, the cheapest first: those with which the step sends less
// (or takes less time, if options.topology is known) without a device computing more. An optimizer's state changes with its
// weight.
//
// The planner says what each would save (CostsOfChanges, spmd/planner/solve_layouts.h), which takes less time than a compile. Then those
// that save most are compiled, of each kind of change, until enough are found, or all together are too large: up to some dozens
// of a small program; of one of many thousand ops one, or two if the first is not cheaper. A program that the planner does
// not know, as one with loops, and one on a mesh of more than two axes, is compiled with about 64 layouts, those of the
// largest values; with fewer if it is large, see most_nodes.
//
// Where layers repeat (spmd/planner/fold_repeats.h), a value changes together with those of other layers that are like it, and what each
// change would save is asked of a program of few of the layers (short_program.h); not with a memory budget.
// REQUIRES: `program` is the result of Compile for `global` with these options. Pure, thread-safe.
LayoutSearch CheaperLayouts(const Graph& global, const Program& program, const CompileOptions& options = {},
                            const CheaperOptions& cheaper = {});

}  // namespace meshwork
