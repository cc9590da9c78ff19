#include "meshwork/layout/layout.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/base/status.h"

namespace meshwork::layout_test {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> List(const Shape& shape) { return {shape.begin(), shape.end()}; }

// ---- Construction and text.

TEST(LayoutTest, ReadsItsTextInEverySpelling) {
  const Mesh mesh = Mesh::Parse("batch=4,model=2,x=3").value();
  struct Case {
    const char *text, *canonical;
  };
  const Case kCases[] = {
      {"{}", "{}"},
      {" { } ", "{}"},
      {"{_}", "{_}"},
      {"{batch,_}", "{batch,_}"},
      {" {batch , _ }\n", "{batch,_}"},
      {"{(batch,model), _}", "{(batch,model),_}"},
      {"{( model , batch ),x}", "{(model,batch),x}"},
      {"{(batch)}", "{batch}"},
      {"{_,_ | sum:model}", "{_,_ | sum:model}"},
      {"{_|max:(x,batch)}", "{_ | max:(batch,x)}"},
      {"{|sum:model}", "{| sum:model}"},
      {"{model | prod:x, prod:batch}", "{model | prod:(batch,x)}"},
      {"{| sum:x, sum:batch}", "{| sum:(batch,x)}"},
  };
  for (const Case& c : kCases) {
    const absl::StatusOr<Layout> layout = Layout::Parse(mesh, c.text);
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_EQ(layout->ToString(), c.canonical);
    EXPECT_EQ(Read(mesh, layout->ToString()), *layout);
  }
}

TEST(LayoutTest, IsMadeOfASpec) {
  const Mesh mesh = Mesh::Parse("batch=4,model=2").value();
  EXPECT_EQ(Layout::Create(mesh, {{"model", "batch"}, UNSHARDED}).value().ToString(), "{(model,batch),_}");
  EXPECT_EQ(Layout::Create(mesh, {UNSHARDED, std::string("batch")}).value(), Read(mesh, "{_,batch}"));
  EXPECT_EQ(LayoutSpecToString({"batch", UNSHARDED, {"model", "x"}}), "{batch,_,(model,x)}");
  EXPECT_EQ(LayoutSpecToString(SpecOf(Read(mesh, "{(model,batch),_}"))), "{(model,batch),_}");
}

TEST(LayoutTest, ReplicatedHoldsEverythingEverywhere) {
  const Mesh mesh = Mesh::Parse("a=2,b=3").value();
  const Layout layout = Layout::Replicated(mesh, 2);
  EXPECT_EQ(layout.ToString(), "{_,_}");
  EXPECT_TRUE(layout.IsReplicated());
  EXPECT_FALSE(Read(mesh, "{a,_}").IsReplicated());
  EXPECT_FALSE(Read(mesh, "{_,_ | sum:a}").IsReplicated());
}

TEST(LayoutTest, NamesShapesAndReductions) {
  EXPECT_EQ(ShapeToString({128, 784}), "[128,784]");
  EXPECT_EQ(ShapeToString({}), "[]");
  EXPECT_EQ(NumElements(Shape{}), 1);
  EXPECT_EQ(NumElements({3, 0, 5}), 0);
  for (ReduceOp op : kAllReduceOps) EXPECT_EQ(ReduceOpFromName(ReduceOpName(op)).value(), op);
}

TEST(LayoutTest, ChangesOneThingAtATime) {
  const Mesh mesh = Mesh::Parse("a=2,b=3,c=4").value();
  const Layout layout = Read(mesh, "{a,_ | sum:c}");
  EXPECT_EQ(layout.WithDim(1, {1}), Read(mesh, "{a,b | sum:c}"));
  EXPECT_EQ(layout.WithDim(0, {}), Read(mesh, "{_,_ | sum:c}"));
  EXPECT_EQ(layout.WithPartials({{2, ReduceOp::kMax}, {1, ReduceOp::kMax}}), Read(mesh, "{a,_ | max:(b,c)}"));
  EXPECT_EQ(layout.WithoutPartials(), Read(mesh, "{a,_}"));
  EXPECT_EQ(layout.ShardedAxes(), AxisSet(AxisList{0}));
  EXPECT_EQ(layout.PartialAxes(), AxisSet(AxisList{2}));
  EXPECT_TRUE(layout.is_partial());
  EXPECT_NE(layout, Read(mesh, "{a,_ | max:c}"));
  EXPECT_NE(layout, Read(Mesh::Parse("a=2,b=3,c=5").value(), "{a,_ | sum:c}"));
}

TEST(LayoutTest, KnowsItsAxesWhateverItIsMadeFrom) {
  const Mesh mesh = Mesh::Parse("x=4,y=2,z=1").value();
  const Mesh finer = mesh.Cut("x:(1)2").value();
  auto check = [](const Layout& layout) {
    AxisSet sharded, owed;
    for (int d = 0; d < layout.rank(); ++d)
      for (const Factor& factor : layout.Factors(d, 1))
        for (int axis : factor.axes) sharded.Add(axis);
    for (const Partial& partial : layout.partials()) owed.Add(partial.axis);
    EXPECT_EQ(layout.ShardedAxes(), sharded) << layout.ToString();
    EXPECT_EQ(layout.PartialAxes(), owed) << layout.ToString();
  };
  for (const Layout& whole : AllWholeLayouts(mesh, 2))
    for (const Layout& layout : WithAllPartials(whole, {ReduceOp::kSum}))
      for (const Layout& made : {layout, layout.On(finer), layout.WithDim(1, {}), layout.WithoutPartials(),
                                 layout.WithoutTrivialAxes(), layout.Flat()})
        check(made);
  for (const char* text : {"{2@x*4,y}", "{2@z*4@x | sum:y}", "{2*4@(x,z)*3@y,_}"}) {
    const Layout strided = Read(mesh, text);
    for (const Layout& made : {strided, strided.On(finer), strided.WithoutPartials(),
                               strided.WithoutTrivialAxes(), strided.Flat()})
      check(made);
  }
}

TEST(LayoutTest, StaysWhatItIsWhenItIsCopiedOrMoved) {
  const Mesh mesh = Mesh::Parse("batch=4,model=2").value();
  Layout layout = Read(mesh, "{batch,_ | sum:model}");
  const Layout copy = layout;
  const Layout moved = std::move(layout);
  EXPECT_EQ(layout, moved);  // NOLINT(bugprone-use-after-move)
  layout = layout.WithDim(0, {}).WithDim(1, {0}).WithoutPartials();
  EXPECT_EQ(layout.ToString(), "{_,batch}");
  for (const Layout& same : {copy, moved}) {
    EXPECT_EQ(same.ToString(), "{batch,_ | sum:model}");
    EXPECT_EQ(same, Read(Mesh::Parse("batch=4,model=2").value(), "{batch,_ | sum:model}"));
    EXPECT_NE(same, Read(Mesh::Parse("batch=2,model=4").value(), "{batch,_ | sum:model}"));
    EXPECT_NE(same, layout);
  }
}

TEST(LayoutTest, IsByDefaultThatOfAScalarOnOneDevice) {
  EXPECT_EQ(Layout(), Layout::Replicated(Mesh(), 0));
  EXPECT_EQ(Layout().ToString(), "{}");
  EXPECT_EQ(Layout().mesh().num_devices(), 1);
  EXPECT_TRUE(Layout().IsReplicated());
}

TEST(LayoutTest, DropsTrivialAxes) {
  const Mesh mesh = Mesh::Parse("a=2,one=1,b=3,uno=1").value();
  EXPECT_EQ(Read(mesh, "{(one,a),uno}").WithoutTrivialAxes(), Read(mesh, "{a,_}"));
  EXPECT_EQ(Read(mesh, "{one,b | sum:(uno,a)}").WithoutTrivialAxes(), Read(mesh, "{_,b | sum:a}"));
  for (const Layout& whole : AllWholeLayouts(mesh, 2)) {
    const Layout layout = whole.WithoutTrivialAxes();
    EXPECT_EQ(layout.WithoutTrivialAxes(), layout);
    EXPECT_FALSE(layout.ShardedAxes().Intersects(AxisSet(AxisList{1, 3})));
    for (int64_t device = 0; device < mesh.num_devices(); ++device)
      EXPECT_EQ(layout.BlockOf({7, 4}, device), whole.BlockOf({7, 4}, device)) << whole.ToString();
  }
}

// ---- The nesting rule, in numbers.

struct Blocks {
  std::vector<int64_t> starts, sizes;
};
Blocks BlocksOf(const Layout& layout, int64_t n) {
  Blocks blocks;
  for (int64_t device = 0; device < layout.mesh().num_devices(); ++device) {
    const Extent extent = layout.BlockOf({n}, device)[0];
    blocks.starts.push_back(extent.start);
    blocks.sizes.push_back(extent.size);
  }
  return blocks;
}

TEST(LayoutTest, CutsUnevenDimsIntoShortAndEmptyBlocks) {
  const Mesh mesh = Mesh::Parse("x=4").value();
  const Layout layout = Read(mesh, "{x}");
  EXPECT_THAT(BlocksOf(layout, 8).starts, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(BlocksOf(layout, 10).starts, ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(BlocksOf(layout, 10).sizes, ElementsAre(3, 3, 3, 1));
  EXPECT_THAT(BlocksOf(layout, 9).sizes, ElementsAre(3, 3, 3, 0));
  EXPECT_THAT(BlocksOf(layout, 5).sizes, ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(BlocksOf(layout, 3).starts, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(BlocksOf(layout, 3).sizes, ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(BlocksOf(layout, 0).sizes, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(List(layout.LocalShape({10})), ElementsAre(3));
  EXPECT_TRUE(layout.IsPadded({10}, 0));
  EXPECT_FALSE(layout.IsPadded({8}, 0));
}

TEST(LayoutTest, NestsTheMinorAxisInTheBlocksOfTheMajor) {
  const Mesh mesh = Mesh::Parse("batch=4,model=2").value();
  // 10 rows: b1 = 3, b2 = 2. Device (i,j) owns [3i + 2j, min(3i + 2j + 2, 3i + 3, 10)).
  const Blocks both = BlocksOf(Read(mesh, "{(batch,model)}"), 10);
  EXPECT_THAT(both.starts, ElementsAre(0, 2, 3, 5, 6, 8, 9, 10));
  EXPECT_THAT(both.sizes, ElementsAre(2, 1, 2, 1, 2, 1, 1, 0));
  // The other way round: b1 = 5, b2 = 2.
  const Blocks swapped = BlocksOf(Read(mesh, "{(model,batch)}"), 10);
  EXPECT_THAT(swapped.starts, ElementsAre(0, 5, 2, 7, 4, 9, 5, 10));
  EXPECT_THAT(swapped.sizes, ElementsAre(2, 2, 2, 2, 1, 1, 0, 0));
  EXPECT_THAT(List(Read(mesh, "{(batch,model)}").LocalShape({10})), ElementsAre(2));
}

TEST(LayoutTest, BlockOfTheHeadersExample) {
  const Layout layout = Layout::Create(Mesh::Parse("batch=4,model=2").value(), {"batch", UNSHARDED}).value();
  EXPECT_THAT(List(layout.LocalShape({10, 7})), ElementsAre(3, 7));
  EXPECT_THAT(layout.BlockOf({10, 7}, 6), ElementsAre(Extent{9, 1}, Extent{0, 7}));
  EXPECT_THAT(List(layout.GlobalIndex({10, 7}, 6, {0, 4})), ElementsAre(9, 4));
  const Layout::Location at = layout.Locate({10, 7}, {9, 4});
  EXPECT_EQ(at.device, 6);
  EXPECT_THAT(List(at.local), ElementsAre(0, 4));
}

TEST(LayoutTest, CostsArithmeticOnAMillionDevices) {
  const Mesh mesh = Mesh::Parse("host=1024,rack=32,chip=32").value();
  const Layout layout = Read(mesh, "{(host,chip),rack}");
  const Shape shape = {1'000'000, 100};
  EXPECT_THAT(List(layout.LocalShape(shape)),
              ElementsAre(31, 4));  // ceil(ceil(1000000/1024)/32) = ceil(977/32)
  for (const Shape& index : {Shape{0, 0}, Shape{976, 3}, Shape{977, 4}, Shape{999'999, 99}}) {
    const Layout::Location at = layout.Locate(shape, index);
    EXPECT_EQ(layout.GlobalIndex(shape, at.device, at.local), index);
  }
  const Block last = layout.BlockOf(shape, mesh.num_devices() - 1);
  EXPECT_THAT(last, ElementsAre(Extent{1'000'000, 0}, Extent{100, 0}));
}

}  // namespace
}  // namespace meshwork::layout_test
