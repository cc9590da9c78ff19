#include "meshwork/runtime/plan/local_program.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "runtime/plan/programs.h"

namespace meshwork::local_program_test {
namespace {

std::string ErrorOf(const Graph& graph) { return std::string(MessageOf(CheckLocalProgram(graph))); }
Graph Parse(std::string_view text) { return ParseGraph(text, "step.mw").value(); }

TEST(LocalProgramTest, AcceptsLocalPrograms) { EXPECT_EQ(ErrorOf(Parse(kLocalProgram)), ""); }

TEST(LocalProgramTest, AxesOfSizeOneDoNotMatter) {
  Graph graph = Parse(kLocalProgram);
  graph.mutable_value(graph.arguments()[1].value).layout = Layout::Parse(graph.mesh(), "{x,y}").value();
  EXPECT_EQ(ErrorOf(graph), "");
}

}  // namespace
}  // namespace meshwork::local_program_test
