// Strided dims, sub-axes and pins, in examples and errors.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/layout.h"

namespace meshwork::strided_test {
namespace {

using ::testing::ElementsAre;

// The elements of a tensor of one dim that a device holds.
std::vector<int64_t> Elements(const Layout& layout, int64_t size, int64_t device) {
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < layout.LocalShape({size})[0]; ++i)
    if (layout.IsHeld({size}, device, {i})) elements.push_back(layout.GlobalIndex({size}, device, {i})[0]);
  return elements;
}

// ---- Strided dims.

TEST(StridedLayoutTest, ReadsItsTextInEverySpelling) {
  const Mesh mesh = Mesh::Parse("x=2,y=3,z=2").value();
  struct Case {
    const char *text, *canonical;
  };
  const Case kCases[] = {
      {"{8@x*4}", "{8@x*4}"},
      {" { 8 @ x * 4@( y , z ) * 2 , _ } ", "{8@x*4@(y,z)*2,_}"},
      {"{8*4@x | sum:y}", "{8*4@x | sum:y}"},
      {"{8@(x)*2@z}", "{8@x*2@z}"},
      // Factors without effect are dropped.
      {"{2*4*8@x}", "{8*8@x}"},
      {"{8@x*2*2}", "{8@x*4}"},
      {"{8@x*1*4@y*1}", "{8@x*4@y}"},
      {"{1@x*8}", "{1@x*8}"},
      {"{1*8@x}", "{x}"},
      {"{8*4}", "{_}"},
      {"{1*1}", "{_}"},
  };
  for (const Case& c : kCases) {
    const absl::StatusOr<Layout> layout = Layout::Parse(mesh, c.text);
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_EQ(layout->ToString(), c.canonical);
    EXPECT_EQ(Read(mesh, layout->ToString()), *layout);
  }
}

TEST(StridedLayoutTest, IsMadeOfASpec) {
  const Mesh mesh = Mesh::Parse("x=2,y=3").value();
  const LayoutSpec spec = {DimSpec::Factors({{8, {"x"}}, {4}}), "y"};
  EXPECT_EQ(LayoutSpecToString(spec), "{8@x*4,y}");
  EXPECT_EQ(Layout::Create(mesh, spec).value(), Read(mesh, "{8@x*4,y}"));
  EXPECT_EQ(LayoutSpecToString(SpecOf(Read(mesh, "{8@x*4@y,_}"))), "{8@x*4@y,_}");
}

TEST(StridedLayoutTest, CutsEachFactorForItself) {
  const Mesh mesh = Mesh::Parse("x=2,y=2").value();
  // [4,3] {x,y} as [12]: rows 0 1 | 2 3, columns 0 1 | 2.
  const Layout layout = Read(mesh, "{4@x*3@y}");
  EXPECT_THAT(Elements(layout, 12, 0), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(Elements(layout, 12, 1), ElementsAre(2, 5));
  EXPECT_THAT(Elements(layout, 12, 2), ElementsAre(6, 7, 9, 10));
  EXPECT_THAT(Elements(layout, 12, 3), ElementsAre(8, 11));
  EXPECT_EQ(layout.LocalShape({12}), (Shape{4}));
  EXPECT_TRUE(layout.IsPadded({12}, 0));
  EXPECT_EQ(layout.FactorShape({12}), (Shape{4, 3}));
  EXPECT_THAT(layout.BlockOf({12}, 3), ElementsAre(Extent{2, 2}, Extent{2, 1}));
  // Device 1 has elements 2 and 5 in places 0 and 2 of its buffer.
  EXPECT_TRUE(layout.IsHeld({12}, 1, {0}));
  EXPECT_FALSE(layout.IsHeld({12}, 1, {1}));
  EXPECT_EQ(layout.GlobalIndex({12}, 1, {2}), (Shape{5}));
  const Layout::Location at = layout.Locate({12}, {11});
  EXPECT_EQ(at.device, 3);
  EXPECT_EQ(at.local, (Shape{2}));
}

TEST(StridedLayoutTest, TellsItsDimsApart) {
  const Mesh mesh = Mesh::Parse("x=2,y=2,z=2").value();
  const Layout layout = Read(mesh, "{z,4@x*3,_ | max:y}");
  EXPECT_TRUE(layout.is_strided());
  EXPECT_EQ(layout.rank(), 3);
  EXPECT_FALSE(layout.IsStrided(0));
  EXPECT_TRUE(layout.IsStrided(1));
  EXPECT_EQ(layout.dim(0), (AxisList{2}));
  EXPECT_EQ(layout.dim(2), AxisList{});
  EXPECT_EQ(layout.Factors(0, 10), (FactorList{{10, {2}}}));
  EXPECT_EQ(layout.Factors(1, 12), (FactorList{{4, {0}}, {3, {}}}));
  EXPECT_EQ(layout.ShardedAxes(), AxisSet(AxisList{0, 2}));
  EXPECT_EQ(layout.WithoutPartials().WithDim(2, {1}).ToString(), "{z,4@x*3,y}");
  EXPECT_EQ(layout.WithDim(1, {}).ToString(), "{z,_,_ | max:y}");
  EXPECT_EQ(layout.WithDim(1, {0}).ToString(), "{z,x,_ | max:y}");
  EXPECT_EQ(Read(mesh, "{4@x*3,2@z*5}").WithDim(0, {}).ToString(), "{_,2@z*5}");
  EXPECT_EQ(layout.WithPartials({{1, ReduceOp::kAnd}}).ToString(), "{z,4@x*3,_ | and:y}");
  EXPECT_EQ(layout.Flat().ToString(), "{z,x,_,_ | max:y}");
  EXPECT_NE(layout, Read(mesh, "{z,2@x*6,_ | max:y}"));
}

TEST(StridedLayoutTest, FitsItsShapesOnly) {
  const Layout layout = Read(Mesh::Parse("x=2").value(), "{4@x*3,_}");
  EXPECT_TRUE(layout.Fits({12, 0}).ok());
  EXPECT_EQ(MessageOf(layout.Fits({12})),
            "layout {4@x*3,_} has 2 dims, the shape [12] has 1; give one entry per dim.");
  EXPECT_EQ(MessageOf(layout.Fits({13, 5})),
            "layout {4@x*3,_}: the factors of dim 0 make 12 elements, the shape [13,5] has 13 there; their "
            "product must be its size.");
}

// ---- Parts of axes.

TEST(SubAxisLayoutTest, CutsTheMeshThatItIsOn) {
  const Mesh mesh = Mesh::Parse("batch=4,model=8").value();
  const Layout layout = Read(mesh, "{model:(2)4,batch | sum:model:(1)2}");
  EXPECT_EQ(layout.mesh(), Mesh::Parse("batch=4,model=2*4").value());
  EXPECT_EQ(layout.ToString(), "{model:(2)4,batch | sum:model:(1)2}");
  EXPECT_EQ(Layout::Create(mesh, {"model:(4)2", {"batch", "model:(1)4"}})->mesh(),
            Mesh::Parse("batch=4,model=4*2").value());
  EXPECT_EQ(Read(mesh, "{model:(1)8}").ToString(), "{model}");
  EXPECT_EQ(Read(mesh, "{model:(1)8}").mesh(), mesh);
}

TEST(SubAxisLayoutTest, PartsInARowAreTheAxis) {
  const Mesh mesh = Mesh::Parse("model=2*2").value();
  // 5 elements on 4 devices, in blocks of 2; on 2 times 2 devices they would be blocks of 3, cut by 2.
  EXPECT_EQ(Read(mesh, "{(model:(1)2,model:(2)2)}").ToString(), "{model}");
  const Layout in_a_row = Read(mesh, "{model}");
  EXPECT_THAT(Elements(in_a_row, 5, 0), ElementsAre(0, 1));
  EXPECT_THAT(Elements(in_a_row, 5, 1), ElementsAre(2, 3));
  EXPECT_THAT(Elements(in_a_row, 5, 2), ElementsAre(4));
  EXPECT_THAT(Elements(in_a_row, 5, 3), ElementsAre());
  const Layout two_axes = Read(Mesh::Parse("a=2,b=2").value(), "{(a,b)}");
  EXPECT_THAT(Elements(two_axes, 5, 1), ElementsAre(2));
  EXPECT_THAT(Elements(two_axes, 5, 2), ElementsAre(3, 4));
  // The other way round they are two axes, too.
  const Layout swapped = Read(mesh, "{(model:(2)2,model:(1)2)}");
  EXPECT_THAT(Elements(swapped, 5, 1), ElementsAre(3, 4));
  EXPECT_THAT(Elements(swapped, 5, 2), ElementsAre(2));
}

// ---- Pins.

TEST(LayoutPinTest, KeepsWhatIsLeftOpen) {
  const Mesh mesh = Mesh::Parse("batch=4,model=2").value();
  const LayoutPin pin = LayoutPin::Parse(mesh, "{ batch, ?, MATCH, _ | sum:model }").value();
  EXPECT_EQ(pin.ToString(), "{batch,?,MATCH,_ | sum:model}");
  EXPECT_EQ(pin.layout, Read(mesh, "{batch,_,_,_ | sum:model}"));
  EXPECT_THAT(pin.modes, ElementsAre(DimMode::kLocked, DimMode::kOpen, DimMode::kMatch, DimMode::kLocked));
  EXPECT_EQ(pin.mode(1), DimMode::kOpen);
  EXPECT_FALSE(pin.is_locked());
  EXPECT_TRUE(pin.Has(DimMode::kMatch));
  EXPECT_EQ(LayoutPin::Parse(mesh, pin.ToString()).value(), pin);
}

TEST(LayoutPinTest, IsMadeOfASpec) {
  const Mesh mesh = Mesh::Parse("batch=4,model=2").value();
  EXPECT_EQ(LayoutSpecToString({"batch", OPEN, MATCH}), "{batch,?,MATCH}");
  EXPECT_EQ(LayoutPin::Create(mesh, {"batch", OPEN, MATCH}).value(),
            LayoutPin::Parse(mesh, "{batch,?,MATCH}").value());
  EXPECT_EQ(LayoutPin::Create(mesh, {DimSpec::Factors({{4, {"batch"}}, {3}}), OPEN})->ToString(),
            "{4@batch*3,?}");
}

TEST(LayoutPinTest, WithoutOpenDimsIsItsLayout) {
  const Mesh mesh = Mesh::Parse("batch=4,model=2").value();
  const LayoutPin pin = LayoutPin::Parse(mesh, "{batch,_}").value();
  EXPECT_TRUE(pin.is_locked());
  EXPECT_EQ(pin.mode(1), DimMode::kLocked);
  EXPECT_FALSE(pin.Has(DimMode::kOpen));
  EXPECT_EQ(pin, LayoutPin{Read(mesh, "{batch,_}")});
}

TEST(LayoutPinTest, EveryChoiceOfModesReadsBack) {
  const Mesh mesh = Mesh::Parse("a=2,b=2*2").value();
  const char* kDims[] = {"a", "b:(2)2", "4@b*3", "_", "?", "MATCH"};
  for (const char* first : kDims) {
    for (const char* second : kDims) {
      if (std::string(first) == second && *first != '_' && *first != '?' && *first != 'M') continue;
      if (*first != '?' && *second != '?' && *first != 'M' && *second != 'M') continue;
      const std::string text = fmt::format("{{{},{}}}", first, second);
      const LayoutPin pin = LayoutPin::Parse(mesh, text).value();
      EXPECT_EQ(pin.ToString(), text);
      EXPECT_EQ(LayoutPin::Parse(pin.layout.mesh(), pin.ToString()).value(), pin);
    }
  }
}

TEST(LayoutPinTest, AnAxisMayBeCalledMatch) {
  const Mesh mesh = Mesh::Parse("MATCH=2,b=2").value();
  const Layout layout = Layout(mesh, {{0}, {}});
  EXPECT_EQ(layout.ToString(), "{(MATCH),_}");
  EXPECT_EQ(Read(mesh, "{(MATCH),_}"), layout);
  EXPECT_EQ(LayoutPin::Parse(mesh, "{MATCH,_}")->mode(0), DimMode::kMatch);
}

}  // namespace
}  // namespace meshwork::strided_test
