// Cuts of blocks, and the plain parts of strided ones.
#include "meshwork/layout/block.h"

#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/layout/plain_parts.h"

namespace meshwork::block_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The indices of blocks, one block after the other.
std::vector<Shape> IndicesOf(const std::vector<Block>& blocks) {
  std::vector<Shape> indices;
  for (const Block& block : blocks)
    ForEachIndex(block, [&](const Shape& index) { indices.push_back(index); });
  return indices;
}

std::vector<Block> SomeBlocks() {
  std::vector<Block> blocks;
  for (const Shape& shape : AllShapes(3, {0, 1, 2, 5}))
    blocks.push_back({{3, shape[0]}, {0, shape[1]}, {7, shape[2]}});
  return blocks;
}

TEST(BlockTest, IsCutIntoParts) {
  EXPECT_THAT(CutInto({{0, 7}, {0, 3}}, 2), ElementsAre(Block{{0, 3}, {0, 3}}, Block{{3, 4}, {0, 3}}));
  EXPECT_THAT(CutInto({{4, 1}, {1, 3}}, 2), ElementsAre(Block{{4, 1}, {1, 1}}, Block{{4, 1}, {2, 2}}));
  for (const Block& block : SomeBlocks()) {
    for (int64_t parts = 1; parts <= 7; ++parts) {
      const std::vector<Block> cut = CutInto(block, parts);
      EXPECT_EQ(std::ssize(cut), parts);
      std::vector<Shape> indices = IndicesOf(cut), all = IndicesOf({block});
      std::sort(indices.begin(), indices.end());
      EXPECT_EQ(indices, all) << BlockToString(block) << " in " << parts;
    }
  }
}

TEST(BlockTest, IsCutToFit) {
  EXPECT_THAT(CutToFit({{0, 3}, {0, 4}}, 8), ElementsAre(Block{{0, 2}, {0, 4}}, Block{{2, 1}, {0, 4}}));
  EXPECT_THAT(CutToFit({{0, 1}, {2, 4}}, 3), ElementsAre(Block{{0, 1}, {2, 3}}, Block{{0, 1}, {5, 1}}));
  EXPECT_THAT(CutToFit({{0, 0}, {2, 4}}, 3), IsEmpty());
  EXPECT_THAT(CutToFit({}, 1), ElementsAre(Block{}));
  for (const Block& block : SomeBlocks()) {
    for (int64_t most : {1, 2, 3, 4, 9, 10, 11, 24, 200}) {
      const std::vector<Block> cut = CutToFit(block, most);
      EXPECT_EQ(IndicesOf(cut), IndicesOf({block})) << BlockToString(block) << " to " << most;
      for (const Block& part : cut) {
        EXPECT_GT(NumElements(part), 0);
        EXPECT_LE(NumElements(part), most);
      }
      if (NumElements(block) > 0 && NumElements(block) <= most) {
        EXPECT_EQ(cut.size(), 1u);
      }
    }
  }
}

// In the order of the device's buffer, and exactly the elements that the device holds.
TEST(PlainPartsTest, HaveTheElementsOfTheBlock) {
  for (const std::string mesh_text : {"x=2", "x=3,y=2"}) {
    const Mesh mesh = Mesh::Parse(mesh_text).value();
    for (const Shape& shape : {Shape{12}, Shape{4, 3}}) {
      for (const Layout& layout : AllStridedLayouts(mesh, shape, 3)) {
        for (int64_t device = 0; device < mesh.num_devices(); ++device) {
          std::vector<Shape> held;
          ForEachIndex(FullBlock(layout.LocalShape(shape)), [&](const Shape& local) {
            if (layout.IsHeld(shape, device, local)) held.push_back(layout.GlobalIndex(shape, device, local));
          });
          std::vector<Block> boxes;
          for (const PlainPart& part : PlainParts(layout, shape, layout.BlockOf(shape, device))) {
            boxes.push_back(part.box);
            EXPECT_EQ(NumElements(part.factors), NumElements(part.box));
          }
          std::vector<Shape> found = IndicesOf(boxes);
          std::sort(found.begin(), found.end());
          std::sort(held.begin(), held.end());
          EXPECT_EQ(found, held) << layout.ToString() << " device " << device;
        }
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::block_test
