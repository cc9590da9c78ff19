// In how many pieces a variable is kept by parameter servers, and which server keeps which piece.
//
//   SplitOptions{.num_servers = 3, .partitioner = MinSizePartitioner({.max_shards = 3})}
//
// A piece is a block of rows (dim 0). A variable of n rows in k pieces has n / k rows in each, the first n % k pieces one
// more. The three partitioners are those of tf.distribute.experimental.partitioners.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/type.h"
#include "meshwork/train/data/row_range.h"

namespace meshwork {

// How many pieces a variable is kept in: 1 to its rows. Asked for variables of rank 1 and more that have rows; the state
// that an optimizer keeps of a variable is cut as the variable is.
using Partitioner = std::function<int64_t(std::string_view name, DType dtype, const Shape& shape)>;

// So many pieces, or one per row where there are fewer rows.
Partitioner FixedShardsPartitioner(int64_t num_shards);

struct MinSizeOptions {
  int64_t min_shard_bytes = 256 << 10;
  int64_t max_shards = 1;
};
// As many pieces as have min_shard_bytes each, at most max_shards.
Partitioner MinSizePartitioner(const MinSizeOptions& options);

struct MaxSizeOptions {
  int64_t max_shard_bytes = 0;
  std::optional<int64_t> max_shards = {};
};
// As few pieces as have at most max_shard_bytes each; a row is never cut. At most max_shards, which then may be larger.
Partitioner MaxSizePartitioner(const MaxSizeOptions& options);

// The rows of each piece. REQUIRES: pieces >= 1, rows >= 0.
// Law: they follow each other, and cover all rows.
std::vector<RowRange> RowsOfPieces(int64_t rows, int64_t pieces);

// The server of each piece: in order, each goes to the server that has the fewest bytes so far, of several to the first of
// them. `bytes`: per piece. Deterministic. Errors: num_servers is not 1 or more; a server gets none, with the servers'
// numbers.
absl::StatusOr<std::vector<int64_t>> PlacePieces(const std::vector<int64_t>& bytes, int64_t num_servers);

}  // namespace meshwork
