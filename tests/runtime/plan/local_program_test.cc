#include "meshwork/runtime/plan/local_program.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"

namespace meshwork::local_program_test {
namespace {

std::string ErrorOf(const Graph& graph) { return std::string(MessageOf(CheckLocalProgram(graph))); }
Graph Parse(std::string_view text) { return ParseGraph(text, "step.mw").value(); }

constexpr std::string_view kGood = R"(mesh [x=2, y=1]
func step(%a: f32[2,3] of f32[4,3] {x,_}, var %w: f32[2,3] of f32[4,3] {x,_}) {
  %n = neg %a : f32[2,3] of f32[4,3] {x,_}
  %p = reduce_sum %n dims=[0] : f32[3] of f32[3] {_ | sum:x}
  update %w = %n
  return n=%n, w=%w
})";

TEST(LocalProgramTest, AcceptsLocalPrograms) { EXPECT_EQ(ErrorOf(Parse(kGood)), ""); }

TEST(LocalProgramTest, AxesOfSizeOneDoNotMatter) {
  Graph graph = Parse(kGood);
  graph.mutable_value(graph.arguments()[1].value).layout = Layout::Parse(graph.mesh(), "{x,y}").value();
  EXPECT_EQ(ErrorOf(graph), "");
}

}  // namespace
}  // namespace meshwork::local_program_test
