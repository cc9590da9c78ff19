// The sizes of batches for which a session compiles a program when it predicts, and how rows are cut into batches of
// these sizes.
//
//   BatchSizes(100)                           100, 25, 7, 2, 1
//   CutIntoBatches(60, {100, 25, 7, 2, 1})    60 rows in a batch of 100
//   CutIntoBatches(40, {100, 25, 7, 2, 1})    25 rows in a batch of 25, 15 rows in another one
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace meshwork {

// `full`, a quarter of it, a quarter of that, …, each rounded up, down to 1. REQUIRES: full >= 1.
std::vector<int64_t> BatchSizes(int64_t full);

// Rows [begin, begin + rows), in a batch that has room for `size`.
struct BatchPart {
  int64_t begin = 0, rows = 0, size = 0;
  bool operator==(const BatchPart&) const = default;
};

// Each part takes the smallest size that holds all rows which are left, but the next smaller one if they fill at most half
// of it. Rows that no size holds begin with a part of the largest one. REQUIRES: rows >= 0; `sizes` fall, all at least 1.
// Laws: the parts cover each row once, in order. If 1 is among the sizes, the parts have room for less than twice the
// rows, and only the last part is not full.
std::vector<BatchPart> CutIntoBatches(int64_t rows, const std::vector<int64_t>& sizes);

}  // namespace meshwork
