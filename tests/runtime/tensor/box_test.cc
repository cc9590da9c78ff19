#include "meshwork/runtime/tensor/box.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layout/all_layouts.h"

namespace meshwork::box_test {
namespace {

using ::testing::ElementsAre;

Layout ParseLayout(const std::string& mesh, const std::string& text) {
  return Layout::Parse(Mesh::Parse(mesh).value(), text).value();
}

int64_t OffsetIn(const BoxBuffer& buffer, const Shape& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset = offset * buffer.shape[d] + index[d] - buffer.start[d];
  return offset;
}

TEST(BoxTest, IntersectsBlocks) {
  const Block a = {{0, 4}, {2, 6}}, b = {{3, 5}, {0, 4}};
  EXPECT_EQ(Intersect(a, b), (Block{{3, 1}, {2, 2}}));
  EXPECT_EQ(NumElements(Intersect(a, {{4, 2}, {0, 8}})), 0);
  EXPECT_EQ(NumElements(Block{}), 1);
  EXPECT_EQ(BlockToString(a), "[0:4,2:8]");
}

TEST(BoxTest, FindsContiguousRuns) {
  const BoxBuffer whole = BoxBuffer::Whole({4, 6});
  EXPECT_TRUE(BoxCopy({{1, 2}, {0, 6}}, whole, whole).contiguous());
  EXPECT_FALSE(BoxCopy({{1, 2}, {0, 5}}, whole, whole).contiguous());
  EXPECT_TRUE(BoxCopy({{1, 1}, {2, 3}}, whole, whole).contiguous());
  EXPECT_TRUE(BoxCopy({{0, 0}, {0, 5}}, whole, whole).contiguous());
  EXPECT_TRUE(BoxCopy::Linear(7).contiguous());
}

// Every region, between every pair of buffers around it, copied in one piece and cut in two at every place,
// against element-by-element copies.
TEST(BoxTest, CopiesEveryRegionHoweverItIsCut) {
  const std::vector<Block> regions = {{},
                                      {{2, 3}},
                                      {{1, 2}, {1, 3}},
                                      {{0, 2}, {2, 1}, {1, 3}},
                                      {{1, 2}, {0, 2}, {1, 2}, {2, 2}},
                                      {{1, 0}, {0, 3}}};
  for (const Block& region : regions) {
    const size_t rank = region.size();
    for (int around = 0; around < 1 << (2 * rank); ++around) {
      BoxBuffer from{Shape(rank), Shape(rank)}, to{Shape(rank), Shape(rank)};
      for (size_t d = 0; d < rank; ++d) {  // with or without slack on either side
        const int64_t a = around >> (2 * d) & 1, b = around >> (2 * d + 1) & 1;
        from.start[d] = region[d].start - (a ? region[d].start : 0);
        from.shape[d] = region[d].start + region[d].size - from.start[d] + 2 * a;
        to.start[d] = region[d].start - b * std::min<int64_t>(region[d].start, 1);
        to.shape[d] = region[d].start + region[d].size - to.start[d] + b;
      }
      std::vector<int32_t> source(NumElements(from.shape));
      std::iota(source.begin(), source.end(), 1);
      std::vector<int32_t> expected(NumElements(to.shape), 0);
      ForEachIndex(
          region, [&](const Shape& index) { expected[OffsetIn(to, index)] = source[OffsetIn(from, index)]; });
      const BoxCopy copy(region, from, to);
      ASSERT_EQ(copy.elements(), NumElements(region));
      for (int64_t cut = 0; cut <= copy.elements(); ++cut) {
        std::vector<int32_t> target(expected.size(), 0);
        for (const auto& [begin, end] : {std::pair{cut, copy.elements()}, std::pair{int64_t{0}, cut}}) {
          copy.Copy(reinterpret_cast<const std::byte*>(source.data()),
                    reinterpret_cast<std::byte*>(target.data()), sizeof(int32_t), begin, end);
        }
        ASSERT_EQ(target, expected) << BlockToString(region) << " cut at " << cut;
      }
    }
  }
}

TEST(BoxTest, DeviceBuffersStartWhereTheirBlocksDo) {
  const Layout layout = ParseLayout("x=4", "{x,_}");
  const BoxBuffer last = BoxBuffer::OfDevice(layout, {10, 7}, 3);
  EXPECT_THAT(last.start, ElementsAre(9, 0));
  EXPECT_THAT(last.shape, ElementsAre(3, 7));  // block-shaped, though it holds one row
}

}  // namespace
}  // namespace meshwork::box_test
