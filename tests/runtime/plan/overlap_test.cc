#include "meshwork/runtime/plan/overlap.h"

#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/plan/arrange.h"
#include "meshwork/runtime/plan/local_program.h"
#include "runtime/plan/programs.h"
#include "runtime/plan/random_program.h"

namespace meshwork::overlap_test {
namespace {

using ::testing::ElementsAre;

AxisSet Across(const Mesh& mesh, int64_t domains = 2) {
  return Placement::Create(mesh, domains).value().across();
}

// "all_reduce a b": the op and the names of its results.
std::vector<std::string> Order(const Graph& graph) {
  std::vector<std::string> order;
  for (const Node& node : graph.nodes()) {
    order.emplace_back(node.row->name);
    for (ValueId result : node.results) order.back() += " " + graph.value(result).name;
  }
  return order;
}

// Gradients of 8, 4, 2 and 12 floats, in reverse order; %l is computed before all of them.
constexpr std::string_view kGradients = R"(mesh [x=2]
func step(%a: f32[8] {_}, %b: f32[4] {_}, %c: f32[2] {_}, %d: f32[12] {_}, %e: f32[1] {_}) {
  %l = neg %e : f32[1] {_ | sum:x}
  %g4 = neg %d : f32[12] {_ | sum:x}
  %g3 = neg %c : f32[2] {_ | sum:x}
  %g2 = neg %b : f32[4] {_ | sum:x}
  %g1 = neg %a : f32[8] {_ | sum:x}
  %s1, %s2, %s3, %s4, %L = all_reduce %g1, %g2, %g3, %g4, %l axes=(x) op=sum : f32[8] {_}, f32[4] {_}, f32[2] {_}, f32[12] {_}, f32[1] {_}
  %u1 = exp %s1 : f32[8] {_}
  %u2 = exp %s2 : f32[4] {_}
  %u3 = exp %s3 : f32[2] {_}
  %u4 = exp %s4 : f32[12] {_}
  return u1=%u1, u2=%u2, u3=%u3, u4=%u4, loss=%L
})";

std::vector<std::string> Cut(int64_t bucket_bytes) {
  const Graph program = ParseProgram(kGradients).body;
  std::vector<std::string> order = Order(Overlap(program, Across(program.mesh()), bucket_bytes));
  order.erase(order.begin(), order.begin() + 5);  // the gradients
  return order;
}

TEST(OverlapTest, GradientsCrossInTheOrderInWhichTheyAreComputed) {
  EXPECT_THAT(Cut(1), ElementsAre("all_reduce L", "all_reduce s4", "all_reduce s3", "all_reduce s2",
                                  "all_reduce s1", "exp u1", "exp u2", "exp u3", "exp u4"));
  EXPECT_THAT(Cut(40),
              ElementsAre("all_reduce L s4", "all_reduce s3 s2 s1", "exp u1", "exp u2", "exp u3", "exp u4"));
}

// Arrange then moves every update directly after its sum.
TEST(OverlapTest, UpdatesFollowTheirSums) {
  const Graph program = ParseProgram(kGradients).body;
  const AxisSet across = Across(program.mesh());
  std::vector<std::string> order = Order(Arrange(Overlap(program, across, 1), across));
  order.erase(order.begin(), order.begin() + 5);
  EXPECT_THAT(order, ElementsAre("all_reduce L", "all_reduce s4", "exp u4", "all_reduce s3", "exp u3",
                                 "all_reduce s2", "exp u2", "all_reduce s1", "exp u1"));
}

TEST(OverlapTest, WhatIsLeftAndSmallGoesWithTheLast) {
  EXPECT_THAT(Cut(33),
              ElementsAre("all_reduce L s4", "all_reduce s3 s2 s1", "exp u1", "exp u2", "exp u3", "exp u4"));
  EXPECT_THAT(Cut(60), ElementsAre("all_reduce L s4 s3 s2 s1", "exp u1", "exp u2", "exp u3", "exp u4"));
}

TEST(OverlapTest, WhatStaysInTheDomainIsLeftAlone) {
  const Graph program = ParseProgram(kGradients).body;
  EXPECT_EQ(PrintGraph(Overlap(program, AxisSet(), 1)), PrintGraph(program));
}

TEST(OverlapTest, ACollectiveStandsBeforeItsFirstReader) {
  const Graph program = ParseProgram(R"(mesh [x=2]
func step(%a: f32[2] of f32[4] {x}, %b: f32[2] of f32[4] {x}) {
  %A = all_gather %a axes=(x) dim=0 : f32[4] {_}
  %B = all_gather %b axes=(x) dim=0 : f32[4] {_}
  %c = neg %a : f32[2] of f32[4] {x}
  %e = exp %A : f32[4] {_}
  %d = neg %c : f32[2] of f32[4] {x}
  return e=%e, d=%d, B=%B
})")
                            .body;
  EXPECT_THAT(Order(Overlap(program, Across(program.mesh()), 1)),
              ElementsAre("neg c", "all_gather A", "exp e", "neg d", "all_gather B"));
}

// A collective that is cut from a larger one has the causes of its values.
TEST(OverlapTest, EachPartHasItsCauses) {
  Graph program = ParseProgram(kGradients).body;
  for (int n = 0; n < static_cast<int>(program.nodes().size()); ++n)
    if (program.nodes()[n].results.size() > 1) program.mutable_node(n).cause = "1; 2; 3; 4; L";
  const Graph ordered = Overlap(program, Across(program.mesh()), 40);
  std::vector<std::string> causes;
  for (const Node& node : ordered.nodes())
    if (node.row->kind == OpKind::kCollective) causes.push_back(node.cause);
  EXPECT_THAT(causes, ElementsAre("L; 4", "3; 2; 1"));
}

TEST(OverlapTest, BytesAreThoseOfTheLargest) {
  const Graph program = ParseProgram(kGradients).body;
  EXPECT_EQ(MostBytesAcross(program, Across(program.mesh())), 27 * 4);
  EXPECT_EQ(MostBytesAcross(program, AxisSet()), 0);
}

TEST(OverlapTest, AChainOfCollectivesMayBeLong) {
  constexpr int kMany = 100'000;
  Graph program = ParseProgram(R"(mesh [x=2]
func step(%a: f32[2] {_ | sum:x}) {
  %s = all_reduce %a axes=(x) op=sum : f32[2] {_}
  return a=%s
})")
                      .body;
  const Node first = program.nodes()[0];
  for (int i = 1; i < kMany; ++i) {
    Node next = first;
    next.operands = {program.nodes().back().results[0]};
    next.results.clear();
    program.AddNode(std::move(next), {program.value(first.results[0])});
  }
  Node last{.row = &GetOp("neg")};
  last.operands = {program.nodes().back().results[0]};
  const int n = program.AddNode(std::move(last), {program.value(first.results[0])});
  program.AddOutput({"y", program.nodes()[n].results[0]});
  EXPECT_EQ(Overlap(program, Across(program.mesh()), 1).nodes().size(), kMany + 1);
}

TEST(OverlapTest, RandomProgramsStayWhole) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    const Graph program = ParseGraph(ProgramDraw(random).Make().text).value();
    for (int64_t domains : {2, 4}) {
      const Graph ordered = Overlap(program, Across(program.mesh(), domains), 16);
      EXPECT_TRUE(CheckLocalProgram(ordered).ok()) << PrintGraph(ordered);
      EXPECT_GE(ordered.nodes().size(), program.nodes().size());
      EXPECT_EQ(ordered.outputs().size(), program.outputs().size());
    }
  }
}

}  // namespace
}  // namespace meshwork::overlap_test
