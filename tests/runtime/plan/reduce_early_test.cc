#include "meshwork/runtime/plan/reduce_early.h"

#include "gtest/gtest.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "runtime/plan/programs.h"

namespace meshwork::reduce_early_test {
namespace {

std::string Moved(std::string_view text) { return PrintGraph(ReduceEarly(ParseGraph(text).value())); }

TEST(ReduceEarlyTest, ASumIsMadeBeforeWhatItPassed) {
  EXPECT_EQ(Moved(R"(mesh [x=2, y=2]
func step(%a: f32[4,3] of f32[8,3] {x,_}, %d: f32[4,5] of f32[8,5] {x,_}, %r: f32[] {}) {
  %0 = matmul %a, %d transpose_a=true : f32[3,5] {_,_ | sum:x}
  %1 = mul %0, %r : f32[3,5] {_,_ | sum:x}
  %2 = neg %1 : f32[3,5] {_,_ | sum:x}
  %3 = all_reduce %2 axes=(x) op=sum : f32[3,5] {_,_}
  return g=%3
})"),
            R"(mesh [x=2, y=2]
func step(%a: f32[4,3] of f32[8,3] {x,_},
     %d: f32[4,5] of f32[8,5] {x,_},
     %r: f32[] {}) {
  %0 = matmul %a, %d transpose_a=true : f32[3,5] {_,_ | sum:x}
  %1 = all_reduce %0 axes=(x) op=sum : f32[3,5] {_,_}
  %2 = mul %1, %r : f32[3,5] {_,_}
  %3 = neg %2 : f32[3,5] {_,_}
  return g=%3
}
)");
}

// Not moved: a partial value with other readers, ops on two partial operands, and reductions whose operand was
// partial with another reduction.
TEST(ReduceEarlyTest, OnlyWhatNobodyElseReadsIsMoved) {
  for (std::string_view text : {R"(mesh [x=2]
func step(%a: f32[3] of f32[6] {x}, %r: f32[] {}) {
  %0 = reduce_sum %a dims=[0] : f32[] {| sum:x}
  %1 = mul %0, %r : f32[] {| sum:x}
  %2 = all_reduce %1 axes=(x) op=sum : f32[] {}
  %3 = all_reduce %0 axes=(x) op=sum : f32[] {}
  return g=%2, h=%3
}
)",
                                R"(mesh [x=2]
func step(%a: f32[3] of f32[6] {x}, %b: f32[3] of f32[6] {x}) {
  %0 = reduce_sum %a dims=[0] : f32[] {| sum:x}
  %1 = reduce_sum %b dims=[0] : f32[] {| sum:x}
  %2 = add %0, %1 : f32[] {| sum:x}
  %3 = all_reduce %2 axes=(x) op=sum : f32[] {}
  return g=%3
}
)",
                                // A hand-written program may claim that any value is partial.
                                R"(mesh [x=2]
func step(%a: f32[3] of f32[6] {x}, %c: f32[] {}) {
  %0 = reduce_sum %a dims=[0] : f32[] {| sum:x}
  %1 = add %0, %c : f32[] {| sum:x}
  %2 = exp %1 : f32[] {| sum:x}
  %3 = all_reduce %2 axes=(x) op=sum : f32[] {}
  return g=%3
}
)",
                                R"(mesh [x=2]
func step(%a: f32[3] of f32[6] {x}) {
  %0 = reduce_max %a dims=[0] : f32[] {| max:x}
  %1 = neg %0 : f32[] {| min:x}
  %2 = all_reduce %1 axes=(x) op=min : f32[] {}
  return g=%2
}
)"}) {
    EXPECT_EQ(Moved(text), PrintGraph(ParseGraph(text).value()));
  }
}

TEST(ReduceEarlyTest, WhatIsStillOwedOverOtherAxesStays) {
  constexpr std::string_view kText = R"(mesh [x=2, y=3]
func step(%a: f32[1] of f32[6] {(x,y)}, %r: f32[] {}) {
  %0 = reduce_sum %a dims=[0] : f32[] {| sum:(x,y)}
  %1 = mul %0, %r : f32[] {| sum:(x,y)}
  %2 = all_reduce %1 axes=(y) op=sum : f32[] {| sum:x}
  %3 = all_reduce %2 axes=(x) op=sum : f32[] {}
  return g=%3
})";
  const Graph moved = ReduceEarly(ParseGraph(kText).value());
  EXPECT_EQ(moved.nodes()[1].row->name, "all_reduce");
  EXPECT_EQ(moved.value(moved.nodes()[2].results[0]).layout->ToString(), "{| sum:x}");
  const Program program = ParseProgram(kText);
  const Tensors feeds = {{"a", Ramp({F32, {6}})}, {"r", Ramp({F32, {}}, 0.5)}};
  for (const RunMode& mode : AllRunModes())
    EXPECT_EQ(RunProgram(program, feeds, {}, mode).outputs.at("g").Scalar().value(), 21 * 0.5);
}

}  // namespace
}  // namespace meshwork::reduce_early_test
