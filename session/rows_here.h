// The rows of a batch that one domain reads.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/exec/row_range.h"

namespace meshwork {

// The smallest range that covers what `domain` reads along dim 0 of the batch's inputs, if these have `rows` rows.
//
// `global` is the program as it was written, and `local` what it was compiled to. The batch's inputs are those whose
// dim 0 is `full` in `global`. A compiler that gets the program for another number of rows keeps the layout of a dim
// that the program pins, but may change that of a dim that the program leaves open. So the range is all rows if an
// input's dim 0 is open, is whole in each domain, or is strided and cannot have so many rows; and if `rows` is not a
// size from 1 to `full`.
//
// Laws: a block of a batch's input that a device of the domain holds, in the program compiled for `rows` rows, lies
// within the range. The ranges of all domains cover all rows.
// REQUIRES: `domain` is on the mesh of `local`.
RowRange RowsOfDomain(const Graph& global, const Graph& local, const Domain& domain, int64_t full,
                      int64_t rows);

}  // namespace meshwork
