// Partitioners: how many pieces parameter servers keep a variable in, and which server keeps which piece.
//
//   SplitOptions{.num_servers = 3, .partitioner = MinSizePartitioner({.max_shards = 3})}
//
// A piece is a block of rows (dim 0). A variable of n rows in k pieces has n / k rows in each, the first n % k pieces
// one more. The three partitioners are those of tf.distribute.experimental.partitioners.
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
#include "meshwork/runtime/exec/row_range.h"

namespace meshwork {

// The number of pieces that a variable is kept in, from 1 to its number of rows. Called for variables of rank 1 and
// more that have rows; the state that an optimizer keeps of a variable is cut as the variable is.
using Partitioner = std::function<int64_t(std::string_view name, DType dtype, const Shape& shape)>;

// `num_shards` pieces, or one per row if there are fewer rows.
Partitioner FixedShardsPartitioner(int64_t num_shards);

struct MinSizeOptions {
  int64_t min_shard_bytes = 256 << 10;
  int64_t max_shards = 1;
};
// The largest number of pieces of at least min_shard_bytes each, but at most max_shards.
Partitioner MinSizePartitioner(const MinSizeOptions& options);

struct MaxSizeOptions {
  int64_t max_shard_bytes = 0;
  std::optional<int64_t> max_shards = {};
};
// The smallest number of pieces of at most max_shard_bytes each; a row is never cut. With max_shards, at most that many
// pieces, which may then be larger.
Partitioner MaxSizePartitioner(const MaxSizeOptions& options);

// The rows of each piece. REQUIRES: pieces >= 1, rows >= 0.
// Law: they follow each other, and cover all rows.
std::vector<RowRange> RowsOfPieces(int64_t rows, int64_t pieces);

// The server of each piece: in order, each goes to the server that has the fewest bytes so far, or to the first of
// several such servers. `bytes`: per piece. Deterministic. Errors: num_servers is not 1 or more; a server gets none,
// with the servers' numbers.
absl::StatusOr<std::vector<int64_t>> PlacePieces(const std::vector<int64_t>& bytes, int64_t num_servers);

}  // namespace meshwork
