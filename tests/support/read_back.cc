// The linker sends the calls of ParseGraph, PrintGraph and Graph::status to the functions here (its option
// --wrap, in tests/CMakeLists.txt), which check the programs that pass through.
#include "support/read_back.h"

#include <atomic>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/difference.h"
#include "meshwork/ir/text.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the names are the linker's.
#define MESHWORK_PARSE "_ZN8meshwork10ParseGraphESt17basic_string_viewIcSt11char_traitsIcEES3_"
#define MESHWORK_PRINT "_ZN8meshwork10PrintGraphB5cxx11ERKNS_5GraphE"
#define MESHWORK_STATUS "_ZNK8meshwork5Graph6statusEv"

namespace meshwork {

absl::StatusOr<Graph> RealParse(std::string_view text, std::string_view file) asm("__real_" MESHWORK_PARSE);
absl::StatusOr<Graph> ObservedParse(std::string_view text,
                                    std::string_view file) asm("__wrap_" MESHWORK_PARSE);
std::string RealPrint(const Graph& graph) asm("__real_" MESHWORK_PRINT);
std::string ObservedPrint(const Graph& graph) asm("__wrap_" MESHWORK_PRINT);
absl::Status RealStatus(const Graph* graph) asm("__real_" MESHWORK_STATUS);
absl::Status ObservedStatus(const Graph* graph) asm("__wrap_" MESHWORK_STATUS);
// NOLINTEND

namespace {

std::atomic<int> checked = 0;  // tests compile on several threads
thread_local bool checking = false;

}  // namespace

std::string ReadBackError(const Graph& graph) {
  const std::string text = RealPrint(graph);
  const absl::StatusOr<Graph> read = RealParse(text, "program");
  if (!read.ok()) return fmt::format("{}\n{}", MessageOf(read.status()), text);
  const std::string difference = FirstDifference(graph, *read), again = RealPrint(*read);
  if (!difference.empty()) return fmt::format("{}\n{}", difference, text);
  return again == text ? "" : fmt::format("it is printed otherwise when it is read:\n{}\n{}", again, text);
}

void ExpectReadsBack(const std::string& what, const Graph& graph) {
  if (checking || !RealStatus(&graph).ok()) return;
  checking = true;
  EXPECT_EQ(ReadBackError(graph), "") << what;
  checking = false;
  ++checked;
}

absl::StatusOr<Graph> ObservedParse(std::string_view text, std::string_view file) {
  absl::StatusOr<Graph> graph = RealParse(text, file);
  if (graph.ok()) ExpectReadsBack("a program that was parsed", *graph);
  return graph;
}

std::string ObservedPrint(const Graph& graph) {
  ExpectReadsBack("a program that was printed", graph);
  return RealPrint(graph);
}

absl::Status ObservedStatus(const Graph* graph) {
  ExpectReadsBack("a program without mistakes", *graph);
  return RealStatus(graph);
}

namespace {

// If one of the functions were renamed, the linker would wrap nothing and give no error.
TEST(ReadBackTest, SeesEveryWayAProgramPasses) {
  const int before = checked;
  const Graph graph = ParseGraph("mesh []\nfunc f() {\n}\n").value();
  EXPECT_EQ(checked, before + 1);
  PrintGraph(graph);
  EXPECT_EQ(checked, before + 2);
  EXPECT_TRUE(graph.status().ok());
  EXPECT_EQ(checked, before + 3);
}

}  // namespace
}  // namespace meshwork
