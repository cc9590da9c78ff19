#include "meshwork/session/batch_sizes.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace meshwork::batch_sizes_test {
namespace {

using ::testing::ElementsAre;

TEST(BatchSizesTest, AreQuarters) {
  EXPECT_THAT(BatchSizes(100), ElementsAre(100, 25, 7, 2, 1));
  EXPECT_THAT(BatchSizes(64), ElementsAre(64, 16, 4, 1));
  EXPECT_THAT(BatchSizes(2), ElementsAre(2, 1));
  EXPECT_THAT(BatchSizes(1), ElementsAre(1));
}

TEST(BatchSizesTest, RowsAreCutOrPadded) {
  const std::vector<int64_t> sizes = BatchSizes(100);
  EXPECT_THAT(CutIntoBatches(0, sizes), ElementsAre());
  EXPECT_THAT(CutIntoBatches(51, sizes), ElementsAre(BatchPart{0, 51, 100}));
  EXPECT_THAT(CutIntoBatches(50, sizes), ElementsAre(BatchPart{0, 25, 25}, BatchPart{25, 25, 25}));
  EXPECT_THAT(CutIntoBatches(40, sizes), ElementsAre(BatchPart{0, 25, 25}, BatchPart{25, 15, 25}));
  EXPECT_THAT(CutIntoBatches(8, sizes), ElementsAre(BatchPart{0, 7, 7}, BatchPart{7, 1, 1}));
  EXPECT_THAT(CutIntoBatches(260, sizes),
              ElementsAre(BatchPart{0, 100, 100}, BatchPart{100, 100, 100}, BatchPart{200, 60, 100}));
  EXPECT_THAT(CutIntoBatches(230, {100, 30}),
              ElementsAre(BatchPart{0, 100, 100}, BatchPart{100, 100, 100}, BatchPart{200, 30, 30}));
}

TEST(BatchSizesTest, PartsCoverTheRowsAndHaveRoomForLessThanTwiceAsMany) {
  for (int64_t full = 1; full <= 130; ++full) {
    const std::vector<int64_t> sizes = BatchSizes(full);
    for (int64_t rows = 1; rows <= 2 * full + 3; ++rows) {
      int64_t end = 0, room = 0;
      for (const BatchPart& part : CutIntoBatches(rows, sizes)) {
        EXPECT_EQ(part.begin, end);
        EXPECT_GE(part.rows, 1);
        EXPECT_TRUE(part.rows == part.size || part.begin + part.rows == rows) << rows << " of " << full;
        EXPECT_LE(part.rows, part.size);
        end += part.rows;
        room += part.size;
      }
      EXPECT_EQ(end, rows);
      EXPECT_LT(room, 2 * rows) << rows << " of " << full;
    }
  }
}

}  // namespace
}  // namespace meshwork::batch_sizes_test
