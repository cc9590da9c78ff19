// Finds layouts of the user's that, each changed by itself, would make a step cheaper.
#pragma once

#include <cstdint>

#include "meshwork/plan/explain.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

// Tries other layouts for the values pinned in `global` – an axis of a dim dropped, moved to another dim, or
// a free axis added –, each by compiling with it. Returns the best layout for each value, at most `most`, the
// cheapest first: those with which the step sends less (or takes less time, if options.topology is known)
// without a device computing more. An optimizer's state changes with its weight. At most about 64 layouts are
// tried, those of the largest values; fewer for a large program, so that the compiles together have at most
// `most_nodes` nodes, but at least one. REQUIRES: `program` is the result of Compile for `global` with these
// options.
LayoutSearch CheaperLayouts(const Graph& global, const Program& program, const CompileOptions& options = {},
                            int most = 3, int64_t most_nodes = int64_t{1} << 18);

}  // namespace meshwork
