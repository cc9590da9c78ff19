// The possible layouts of values, and the possible ways to run ops.
#include "meshwork/spmd/planner/layout_space.h"

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/rewrite/gather_on_use.h"
#include "support/golden.h"

namespace meshwork::layout_space_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::UnorderedElementsAre;

// The space of a program; owns what the space refers to.
struct SpaceOf {
  explicit SpaceOf(Graph graph, const OpenAxes& open = {})
      : pinned(std::move(graph)),
        propagated(Propagate(pinned).graph),
        choices(InsertRelayouts(propagated, {}, Replication()).choices),
        fold(Unfolded(propagated)),
        nodes(propagated, fold),
        space(pinned, propagated, choices, fold, nodes, open) {}
  explicit SpaceOf(std::string_view text) : SpaceOf(ParseGraph(text).value()) {}

  ValueId IdOf(std::string_view name) const {
    for (size_t id = 0; id < pinned.values().size(); ++id)
      if (pinned.value(static_cast<ValueId>(id)).name == name) return static_cast<ValueId>(id);
    return kNoValue;
  }
  std::string Text(ValueId id, int layout) { return space.TableOf(id).layout(layout).ToString(); }
  std::vector<std::string> LayoutsOf(std::string_view name) {
    std::vector<std::string> texts;
    for (int layout : space.layouts(IdOf(name))) texts.push_back(Text(IdOf(name), layout));
    return texts;
  }
  // The modes of the op that gives the value: "{x,_} {_,_} -> {x,_}".
  std::vector<std::string> ModesOf(std::string_view name) {
    const int n = pinned.value(IdOf(name)).node;
    const Node& node = pinned.nodes()[n];
    const OpModes& modes = space.modes(n);
    std::vector<std::string> texts;
    for (size_t m = 0; m < modes.count; ++m) {
      std::vector<std::string> parts;
      for (size_t i = 0; i < modes.operands; ++i)
        parts.push_back(Text(node.operands[i], modes.WantedBy(m)[i]));
      parts.push_back("->");
      for (size_t i = 0; i < modes.results; ++i) parts.push_back(Text(node.results[i], modes.LeftBy(m)[i]));
      texts.push_back(absl::StrJoin(parts, " "));
    }
    return texts;
  }

  Graph pinned, propagated;
  std::vector<std::optional<Choice>> choices;
  Fold fold;
  FoldedNodes nodes;
  LayoutSpace space;
};

constexpr std::string_view kLayer = R"(mesh [x=2]
func f(%a: f32[8,4] {x,_}, %w: f32[4,6], %g: f32[6] {x}) {
  %h = matmul %a, %w
  %b = add %h, %g
  %t = tanh %b
  return t=%t
})";

TEST(LayoutSpaceTest, EveryCutThatReachesADimIsACandidate) {
  SpaceOf of(kLayer);
  EXPECT_THAT(of.LayoutsOf("h"), UnorderedElementsAre("{x,_}", "{_,x}", "{_,_}"));
  EXPECT_THAT(of.LayoutsOf("b"), UnorderedElementsAre("{x,_}", "{_,x}", "{_,_}"));
  // The layout of Propagate comes first.
  for (const char* name : {"h", "b", "t", "w"})
    EXPECT_EQ(of.LayoutsOf(name)[0], of.propagated.value(of.IdOf(name)).layout->ToString()) << name;
}

// Variables that the step writes, their new values, and outputs keep the layouts of the narrow space.
TEST(LayoutSpaceTest, WhatDoesNotLeaveTheStepIsCutByAllAxesInAWideSpace) {
  const Graph graph = ParseGraph(R"(mesh [x=2, y=2, z=2]
func f(%a: f32[8,4] {x,_}, %i: f32[4,6], %g: f32[4,6] {_,y}, var %w: f32[6,5], var %c: f32[4,6]) {
  %b = add %i, %c
  %h = matmul %a, %b
  %s = reduce_sum %a dims=[0]
  %v = mul %w, %w
  update %w = %v
  return h=%h, s=%s, g=%g
})")
                          .value();
  SpaceOf flowing(graph), wide(graph, {.is_wide = true});
  EXPECT_THAT(flowing.LayoutsOf("i"), UnorderedElementsAre("{_,_}"));
  EXPECT_THAT(wide.LayoutsOf("i"), UnorderedElementsAre("{_,_}", "{_,x}", "{_,y}", "{x,_}", "{y,_}", "{x,y}",
                                                        "{y,x}", "{(x,y),_}", "{(y,x),_}"));
  for (const char* name : {"a", "h", "s", "v", "w", "c", "g"})
    EXPECT_EQ(wide.LayoutsOf(name), flowing.LayoutsOf(name)) << name;
}

TEST(LayoutSpaceTest, WhatIsPinnedHasOneLayout) {
  SpaceOf of(kLayer);
  EXPECT_THAT(of.LayoutsOf("a"), ElementsAre("{x,_}"));
  EXPECT_THAT(of.LayoutsOf("g"), ElementsAre("{x}"));
  SpaceOf pinned(R"(mesh [x=2]
func f(%a: f32[8,4] {x,_}) {
  %t = tanh %a : f32[8,4] {_,x}
  %u = tanh %t
  return u=%u
})");
  EXPECT_THAT(pinned.LayoutsOf("t"), ElementsAre("{_,x}"));
}

TEST(LayoutSpaceTest, WhatIsKeptHasOneLayout) {
  SpaceOf of(MarkUses(ParseGraph(R"(mesh [x=2]
func f(%a: f32[8,4] {x,_}, var %w: f32[4,6] {x,_} gather=on_use) {
  %h = matmul %a, %w
  return h=%h
})")
                          .value()));
  EXPECT_THAT(of.LayoutsOf("w"), ElementsAre("{x,_}"));
  EXPECT_TRUE(of.space.IsKept(of.IdOf("w")));
  EXPECT_FALSE(of.space.IsKept(of.IdOf("a")));
}

TEST(LayoutSpaceTest, AProductRunsOnRowsColumnsOrTerms) {
  SpaceOf of(R"(mesh [x=2]
func f(%a: f32[8,4] {x,_}, %w: f32[4,6] {_,x}, %v: f32[4,6] {x,_}) {
  %h = matmul %a, %w
  %k = matmul %a, %v
  return h=%h, k=%k
})");
  EXPECT_THAT(of.ModesOf("h"), Contains("{x,_} {_,_} -> {x,_}"));
  EXPECT_THAT(of.ModesOf("h"), Contains("{_,_} {_,x} -> {_,x}"));
  EXPECT_THAT(of.ModesOf("h"), Contains("{_,_} {_,_} -> {_,_}"));
  EXPECT_THAT(of.ModesOf("k"), Contains("{_,x} {x,_} -> {_,_ | sum:x}"));
  EXPECT_THAT(of.ModesOf("k"), Contains("{x,_} {_,_} -> {x,_}"));
  for (const std::string& mode : of.ModesOf("k")) EXPECT_NE(mode, "{_,x} {_,_} -> {_,_}");
}

TEST(LayoutSpaceTest, LinearOpsRunOnWhatIsOwed) {
  SpaceOf of(R"(mesh [x=2]
func f(%a: f32[8,4] {_,x}, %w: f32[4,6] {x,_}, %c: f32[8,6]) {
  %h = matmul %a, %w
  %p = neg %h
  %q = mul %p, %c
  %t = tanh %q
  return t=%t
})");
  EXPECT_THAT(of.LayoutsOf("h"), Contains("{_,_ | sum:x}"));
  EXPECT_THAT(of.ModesOf("p"), Contains("{_,_ | sum:x} -> {_,_ | sum:x}"));
  EXPECT_THAT(of.ModesOf("q"), Contains("{_,_ | sum:x} {_,_} -> {_,_ | sum:x}"));
  EXPECT_THAT(of.ModesOf("q"), Not(Contains("{_,_ | sum:x} {_,_ | sum:x} -> {_,_ | sum:x}")));
  for (const std::string& mode : of.ModesOf("t")) EXPECT_EQ(mode.find("sum"), std::string::npos) << mode;
  // An output has no pending sum.
  EXPECT_THAT(of.LayoutsOf("t"), Not(Contains(testing::HasSubstr("sum"))));
}

TEST(LayoutSpaceTest, SumsAreAddedWhereAllTermsOweThem) {
  SpaceOf of(R"(mesh [x=2]
func f(%a: f32[8,4] {_,x}, %w: f32[4,6] {x,_}, %v: f32[4,6] {x,_}) {
  %h = matmul %a, %w
  %k = matmul %a, %v
  %s = add %h, %k
  %t = tanh %s
  return t=%t
})");
  EXPECT_THAT(of.ModesOf("s"), Contains("{_,_ | sum:x} {_,_ | sum:x} -> {_,_ | sum:x}"));
  EXPECT_THAT(of.ModesOf("s"), Not(Contains("{_,_ | sum:x} {_,_} -> {_,_ | sum:x}")));
}

TEST(LayoutSpaceTest, AReshapeRunsWhereNoElementMoves) {
  SpaceOf of(R"(mesh [x=2]
func f(%a: f32[8,4] {x,_}, %b: f32[8,4] {_,x}) {
  %r = reshape %a shape=[32]
  %s = reshape %b shape=[32]
  return r=%r, s=%s
})");
  EXPECT_THAT(of.LayoutsOf("r"), UnorderedElementsAre("{x}", "{_}"));
  EXPECT_THAT(of.ModesOf("r"), Contains("{x,_} -> {x}"));
  EXPECT_THAT(of.ModesOf("s"), Contains("{_,x} -> {8*4@x}"));
  EXPECT_THAT(of.ModesOf("s"), Contains("{_,_} -> {_}"));
}

// The number of layouts per value, and of modes per op, is bounded on any mesh.
TEST(LayoutSpaceTest, IsBounded) {
  SpaceOf of(R"(mesh [a=2, b=2, c=2, d=2, e=2]
func f(%x: f32[32,32,32,32] {a,b,c,d}, %y: f32[32,32,32,32] {b,c,d,e}, %z: f32[32,32,32,32] {c,(d,e),a,b}) {
  %p = add %x, %y
  %q = mul %p, %z
  %r = transpose %q permutation=[3,2,1,0]
  %s = add %r, %x
  %t = reduce_sum %s dims=[0,1]
  %u = tanh %t
  return u=%u
})");
  for (size_t id = 0; id < of.pinned.values().size(); ++id)
    EXPECT_LE(of.space.layouts(static_cast<ValueId>(id)).size(), 32u + 4u);
  for (size_t n = 0; n < of.pinned.nodes().size(); ++n)
    EXPECT_LE(of.space.modes(static_cast<int>(n)).count, 2u * 96u);
}

// For all golden programs: the first mode of an op is its present one, and layouts fit.
TEST(LayoutSpaceTest, BeginsWithWhatThereIs) {
  int compared = 0;
  for (const std::string& file : GoldenFiles("spmd/insert_relayouts")) {
    const std::string golden = ReadGolden(file);
    SpaceOf of(golden.substr(0, golden.find("----\n")));
    for (size_t n = 0; n < of.pinned.nodes().size(); ++n) {
      if (!of.choices[n].has_value()) continue;
      const Choice first = of.space.ChoiceOf(static_cast<int>(n), 0);
      ASSERT_EQ(first.operands.size(), of.choices[n]->operands.size());
      for (size_t i = 0; i < first.operands.size(); ++i)
        EXPECT_EQ(first.operands[i], of.choices[n]->operands[i].WithoutPartials()) << file;
      ++compared;
    }
    for (size_t id = 0; id < of.pinned.values().size(); ++id) {
      const auto value = static_cast<ValueId>(id);
      std::set<int> distinct;
      for (int layout : of.space.layouts(value)) {
        EXPECT_TRUE(distinct.insert(layout).second) << file;
        EXPECT_EQ(of.space.TableOf(value).layout(layout).rank(), of.pinned.value(value).type.rank());
      }
    }
  }
  EXPECT_GE(compared, 20);
}

}  // namespace
}  // namespace meshwork::layout_space_test
