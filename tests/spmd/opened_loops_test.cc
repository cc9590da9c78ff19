// Opened loops: which of their values must agree in layout, and how often their ops run.
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/loops.h"

namespace meshwork::opened_loops_test {
namespace {

using testing::Each;
using testing::ElementsAre;

Graph Opened(std::string_view text) { return OpenLoops(ParseGraph(text).value()).graph; }

std::vector<int64_t> RunsOfAll(const Graph& opened, std::string_view op) {
  const std::vector<int64_t> runs = RunsOf(opened);
  std::vector<int64_t> of_op;
  for (size_t n = 0; n < runs.size(); ++n)
    if (opened.nodes()[n].row->name == op && !IsMark(opened.nodes()[n])) of_op.push_back(runs[n]);
  return of_op;
}

TEST(OpenedLoopsTest, BodiesRunOncePerIterationAndNestedOnesMultiply) {
  const Graph opened = Opened(R"(mesh [x=2]
func f(%a: f32[4,4] {x,_}) {
  %s = sin %a
  %h = scan %s length=3 (var %u: f32[4,4]) {
    %t = tanh %u
    %i = scan %t length=5 (var %v: f32[4,4]) {
      %e = exp %v
      update %v = %e
    }
    %n = neg %i
    update %u = %n
  }
  %c = cos %h
  return c=%c
})");
  EXPECT_THAT(RunsOfAll(opened, "sin"), ElementsAre(1));
  EXPECT_THAT(RunsOfAll(opened, "tanh"), ElementsAre(3));
  EXPECT_THAT(RunsOfAll(opened, "exp"), ElementsAre(15));
  EXPECT_THAT(RunsOfAll(opened, "neg"), ElementsAre(3));
  EXPECT_THAT(RunsOfAll(opened, "cos"), ElementsAre(1));
}

constexpr std::string_view kWhile = R"(mesh [x=2]
func f(%n: i32[], %a: f32[4,4] {x,_}) {
  %m, %h = while %n, %a (var %i: i32[], var %u: f32[4,4]) {
    %go = less %i, %i
    %t = tanh %u
    update %u = %t
    return %go
  }
  %c = cos %h
  return c=%c
})";

TEST(OpenedLoopsTest, AWhileCountsOnce) {
  EXPECT_THAT(RunsOf(Opened(kWhile)), Each(1));
  EXPECT_THAT(RunsOfAll(Opened(kWhile), "tanh"), ElementsAre(1));
}

// Each pair is of one type, and AgreeAtMarks gives it the first one's layout.
TEST(OpenedLoopsTest, CarriesAreAlikeWithinAndBehindTheirLoop) {
  Graph opened = Opened(kWhile);
  const std::vector<std::pair<ValueId, ValueId>> alike = AlikeAtMarks(opened);
  ASSERT_EQ(alike.size(), 2u);
  for (const auto& [within, behind] : alike) {
    EXPECT_EQ(opened.value(within).type, opened.value(behind).type);
    EXPECT_TRUE(LeavesCarry(opened.nodes()[opened.value(behind).node]));
  }
  for (size_t id = 0; id < opened.values().size(); ++id) {
    ValueInfo& info = opened.mutable_value(static_cast<ValueId>(id));
    info.layout = Layout::Replicated(opened.mesh(), info.type.rank());
  }
  const Layout rows = Layout::Parse(opened.mesh(), "{x, _}").value();
  opened.mutable_value(alike[1].first).layout = rows;
  AgreeAtMarks(opened);
  EXPECT_EQ(opened.value(alike[1].second).layout, rows);
}

TEST(OpenedLoopsTest, ArgumentsOfBothBranchesAreAlike) {
  const Graph opened = Opened(R"(mesh [x=2]
func f(%c: bool[], %a: f32[4,4] {x,_}, %b: f32[4,4]) {
  %r = if %c, %a, %b (%u: f32[4,4], %v: f32[4,4]) {
    %s = add %u, %v
    return %s
  } else (%u: f32[4,4], %v: f32[4,4]) {
    %d = sub %u, %v
    return %d
  }
  return r=%r
})");
  const std::vector<std::pair<ValueId, ValueId>> alike = AlikeAtMarks(opened);
  ASSERT_EQ(alike.size(), 2u);
  for (const auto& [first, second] : alike) {
    EXPECT_EQ(opened.value(first).type, opened.value(second).type);
    EXPECT_LT(opened.value(first).node, opened.value(second).node);
  }
  EXPECT_THAT(RunsOf(opened), Each(1));
}

}  // namespace
}  // namespace meshwork::opened_loops_test
