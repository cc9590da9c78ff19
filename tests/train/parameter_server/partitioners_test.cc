#include "meshwork/train/parameter_server/partitioners.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace meshwork::partitioners_test {
namespace {

using ::testing::ElementsAre;

// The numbers are those of the doctests, and of the implementation, of tf.distribute.experimental.partitioners.
TEST(PartitionersTest, AreThoseOfTensorFlow) {
  EXPECT_EQ(FixedShardsPartitioner(2)("w", F32, {10, 3}), 2);
  EXPECT_EQ(FixedShardsPartitioner(20)("w", F32, {10, 3}), 10);
  const Partitioner least = MinSizePartitioner({.min_shard_bytes = 4, .max_shards = 2});
  EXPECT_EQ(least("w", F32, {6, 1}), 2);
  EXPECT_EQ(least("w", F32, {1, 100}), 1);
  EXPECT_EQ(MinSizePartitioner({.min_shard_bytes = 4, .max_shards = 10})("w", F32, {6, 1}), 6);
  EXPECT_EQ(MinSizePartitioner({.min_shard_bytes = 10, .max_shards = 10})("w", F32, {6, 1}), 2);
  EXPECT_EQ(MinSizePartitioner({.max_shards = 10})("w", F32, {6, 1}), 1);
  EXPECT_EQ(MinSizePartitioner({.max_shards = 10})("w", F32, {1 << 18, 1}), 4);
  EXPECT_EQ(MaxSizePartitioner({.max_shard_bytes = 4})("w", F32, {6, 1}), 6);
  EXPECT_EQ(MaxSizePartitioner({.max_shard_bytes = 4, .max_shards = 2})("w", F32, {6, 1}), 2);
  EXPECT_EQ(MaxSizePartitioner({.max_shard_bytes = 1024})("w", F32, {6, 1}), 1);
  EXPECT_EQ(MaxSizePartitioner({.max_shard_bytes = 20})("w", F32, {7, 2}), 4);
}

TEST(PartitionersTest, RowsOfPiecesCoverAllRows) {
  EXPECT_THAT(RowsOfPieces(7, 3), ElementsAre(RowRange{0, 3}, RowRange{3, 5}, RowRange{5, 7}));
  for (int64_t rows = 0; rows < 20; ++rows) {
    for (int64_t pieces = 1; pieces < 9; ++pieces) {
      const std::vector<RowRange> ranges = RowsOfPieces(rows, pieces);
      ASSERT_EQ(std::ssize(ranges), pieces);
      int64_t next = 0;
      for (const RowRange& range : ranges) {
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.size() - ranges.back().size(), 1);
        next = range.end;
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(PartitionersTest, PiecesGoToTheEmptiestServer) {
  EXPECT_THAT(PlacePieces({10, 10, 10, 10}, 2).value(), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(PlacePieces({100, 10, 10, 90}, 2).value(), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(PlacePieces({0, 0, 0}, 3).value(), ElementsAre(0, 1, 2));
  EXPECT_FALSE(PlacePieces({10, 10}, 3).ok());
}

}  // namespace
}  // namespace meshwork::partitioners_test
