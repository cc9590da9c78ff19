// The cut of a scatter into blocks of 256 threads (ScatterToRows in device/indexing.cuh).
#pragma once

#include <cstdint>

namespace meshwork::cuda {

// The number of rows of the result that a block has, if the result has `rows` rows. At most 255: a list has a byte for
// the row.
int64_t RowsOfScatterBlock(int64_t rows);

// The threads of one row of `inner` elements side by side, and how many of these elements each has at once.
struct RowThreads {
  int64_t wide, per;
};
RowThreads ThreadsOfRow(int64_t inner);

}  // namespace meshwork::cuda
