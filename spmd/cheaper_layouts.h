// Which one layout of the user's, if it were another, would make a step cheaper.
#pragma once

#include <cstdint>

#include "meshwork/plan/explain.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

// Tries other layouts for what is pinned in `global` – an axis of a dim dropped, moved to another dim, or a
// free one added –, each by compiling with it, and returns the best for each value, at most `most`, the
// cheapest first: those by which the step sends less (takes less time, where options.topology is known)
// without a device computing more. The slots of an optimizer change with their weight. At most some 64
// layouts are tried, those of the largest values, and of a large program fewer: no more than together have
// `most_nodes` nodes, but one at least. REQUIRES: `program` is what Compile made of `global` with these
// options.
LayoutSearch CheaperLayouts(const Graph& global, const Program& program, const CompileOptions& options = {},
                            int most = 3, int64_t most_nodes = int64_t{1} << 18);

}  // namespace meshwork
