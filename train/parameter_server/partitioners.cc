#include "meshwork/train/parameter_server/partitioners.h"

#include <algorithm>

#include "meshwork/base/status.h"

namespace meshwork {

Partitioner FixedShardsPartitioner(int64_t num_shards) {
  return [num_shards](std::string_view, DType, const Shape& shape) { return std::min(num_shards, shape[0]); };
}

Partitioner MinSizePartitioner(const MinSizeOptions& options) {
  return [options](std::string_view, DType dtype, const Shape& shape) -> int64_t {
    if (options.min_shard_bytes < 1 || options.max_shards < 1) return 0;
    const int64_t fitting = Type{dtype, shape}.bytes() / options.min_shard_bytes;
    return std::max<int64_t>(1, std::min({options.max_shards, fitting, shape[0]}));
  };
}

Partitioner MaxSizePartitioner(const MaxSizeOptions& options) {
  return [options](std::string_view, DType dtype, const Shape& shape) -> int64_t {
    if (options.max_shard_bytes < 1 || options.max_shards.value_or(1) < 1) return 0;
    const int64_t row_bytes = std::max<int64_t>(1, Type{dtype, shape}.bytes() / shape[0]);
    const int64_t rows = std::max<int64_t>(1, options.max_shard_bytes / row_bytes);
    return std::min((shape[0] + rows - 1) / rows, options.max_shards.value_or(shape[0]));
  };
}

std::vector<RowRange> RowsOfPieces(int64_t rows, int64_t pieces) {
  std::vector<RowRange> ranges;
  int64_t begin = 0;
  for (int64_t p = 0; p < pieces; ++p) {
    const int64_t end = begin + rows / pieces + (p < rows % pieces ? 1 : 0);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

absl::StatusOr<std::vector<int64_t>> PlacePieces(const std::vector<int64_t>& bytes, int64_t num_servers) {
  if (num_servers < 1)
    return InvalidArgument("SplitTraining: num_servers is {}; give 1 or more.", num_servers);
  std::vector<int64_t> filled(static_cast<size_t>(num_servers), 0), counts(filled), servers;
  for (int64_t size : bytes) {
    // A server without pieces comes before one whose pieces have no bytes.
    size_t best = 0;
    for (size_t s = 1; s < filled.size(); ++s)
      if (filled[s] < filled[best] || (filled[s] == filled[best] && counts[s] < counts[best])) best = s;
    filled[best] += size;
    ++counts[best];
    servers.push_back(static_cast<int64_t>(best));
  }
  std::string empty;
  for (size_t s = 0; s < counts.size(); ++s)
    if (counts[s] == 0) empty += fmt::format("{}{}", empty.empty() ? "" : ", ", s);
  if (empty.empty()) return servers;
  return InvalidArgument(
      "SplitTraining: the variables are kept in {}, and of {} servers these get none: {}; take fewer servers, or a "
      "partitioner that cuts variables into more pieces.",
      Count(std::ssize(bytes), "piece"), num_servers, empty);
}

}  // namespace meshwork
