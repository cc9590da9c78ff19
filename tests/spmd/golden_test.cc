// One folder of golden files per pass of the compiler's table. A file is a program, a line "----" and the
// text of the program after the pass; UPDATE_GOLDEN=1 rewrites the text behind the line.
//
// The files of cases/ are the rows of the design's table of hard partitionings. Each states, as
// "// wire: N", the bytes that one device puts on the wire, by the formulas of ir/program_cost.h. Those of
// sharded_update_cases/ are compiled with shard_weight_update.
#include "support/golden.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>

#include "gmock/gmock.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/local/bucket.h"
#include "meshwork/spmd/local/localize.h"
#include "meshwork/spmd/local/recompute.h"
#include "meshwork/spmd/local/reorder.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/regroup_sums.h"
#include "meshwork/spmd/rewrite/gather_on_use.h"
#include "meshwork/spmd/rewrite/simplify.h"
#include "meshwork/spmd/shard_weight_update.h"
#include "meshwork/verify/verify.h"

namespace meshwork::golden_test {
namespace {

constexpr std::string_view kLine = "----\n";

struct Pass {
  std::string_view folder;
  std::function<std::string(const Graph& graph)> text;
  CompileOptions options = {};  // under which the file states its bytes
};

// The program as Compile has it after the pass of that name, which must change it.
std::function<std::string(const Graph&)> After(std::string_view name, CompileOptions options = {}) {
  return [name, options = std::move(options)](const Graph& graph) mutable {
    std::string text;
    options.dump = [&](std::string_view pass, const Graph& made) {
      if (pass == name) text = PrintGraph(made);
    };
    EXPECT_TRUE(Compile(graph, options).ok());
    EXPECT_FALSE(text.empty()) << name << " changes nothing";
    return text;
  };
}

std::string PropagateText(const Graph& graph) {
  const PropagateResult result = Propagate(graph);
  std::string out;
  for (const std::string& decision : result.decisions) out += "// " + decision + "\n";
  for (const std::string& conflict : result.conflicts) out += "// conflict: " + conflict + "\n";
  return out + PrintGraph(result.graph);
}

std::string CompileText(const Graph& graph) { return PrintGraph(Compile(graph).value().body); }

std::string ShardWeightUpdateText(const Graph& graph) {
  const ShardedWeightUpdate result = ShardWeightUpdate(graph);
  std::string out;
  for (const ShardedState& state : result.state)
    out += fmt::format("// %{} {} instead of {}\n", state.variable, state.layout.ToString(),
                       state.asked.ToString());
  return out + PrintGraph(result.graph);
}

std::string CompileShardedText(const Graph& graph) {
  return PrintGraph(Compile(graph, {.shard_weight_update = true}).value().body);
}

// A local program, with its peak of memory, and that of the program from which it was made.
std::string MemoryText(const Graph& before, const Graph& after) {
  return fmt::format("// peak: {} B, then {} B\n{}", LogicalPeakBytes(before), LogicalPeakBytes(after),
                     PrintGraph(after));
}

// The program of the smallest peak that the compiler finds, for a budget which no program meets.
std::string FitText(const Graph& global) {
  Graph before(global.mesh()), after(global.mesh());
  CompileOptions options{.memory_budget = 1};
  options.dump = [&](std::string_view pass, const Graph& graph) {
    if (pass == "bucket_reductions") before = graph;
    if (pass == "fit_memory") after = graph;
  };
  EXPECT_EQ(Compile(global, options).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Verify(global, after).ok()) << Verify(global, after).status();
  return MemoryText(before, after);
}

// Passes that need the work of others start with those; bucket_reductions, place_gathers, reorder and
// recompute read local programs.
const Pass kPasses[] = {
    {"spmd/open_loops", After("open_loops")},
    {"spmd/cut_at_domains", After("cut_at_domains", {.num_domains = 2})},
    {"spmd/split_at_domains", After("split_at_domains", {.num_domains = 2})},
    {"spmd/cut_mesh", After("cut_mesh")},
    {"spmd/carry_summaries", After("carry_summaries")},
    {"spmd/choose_layouts", After("choose_layouts")},
    {"spmd/repeat_layers", After("repeat_layers")},
    {"spmd/close_loops", After("close_loops")},
    {"spmd/share_subexpressions_local", After("share_subexpressions_local")},
    {"spmd/drop_dead_code_local", After("drop_dead_code_local")},
    {"spmd/fold_sizes", [](const Graph& g) { return PrintGraph(FoldSizes(g)); }},
    {"spmd/share_subexpressions", [](const Graph& g) { return PrintGraph(ShareSubexpressions(g)); }},
    {"spmd/drop_dead_code", [](const Graph& g) { return PrintGraph(DropDeadCode(g)); }},
    {"spmd/regroup_sums", [](const Graph& g) { return PrintGraph(RegroupSums(g)); }},
    {"spmd/mark_uses", [](const Graph& g) { return PrintGraph(MarkUses(g)); }},
    {"spmd/shard_weight_update", ShardWeightUpdateText},
    {"spmd/propagate", PropagateText},
    {"spmd/insert_relayouts", [](const Graph& g) { return PrintGraph(InsertRelayouts(Propagate(g).graph)); }},
    {"spmd/localize",
     [](const Graph& g) { return PrintGraph(Localize(InsertRelayouts(Propagate(g).graph))); }},
    {"spmd/bucket_reductions", [](const Graph& g) { return PrintGraph(BucketReductions(g)); }},
    {"spmd/reorder", [](const Graph& g) { return MemoryText(g, Reorder(g)); }},
    {"spmd/recompute", [](const Graph& g) { return MemoryText(g, Recompute(g, 0)); }},
    {"spmd/fit_memory", FitText},
    {"spmd/place_gathers", [](const Graph& g) { return PrintGraph(PlaceGathers(g)); }},
    {"spmd/compile", CompileText},
    {"spmd/cases", CompileText},
    {"spmd/sharded_update_cases", CompileShardedText, {.shard_weight_update = true}},
};

struct GoldenCase {
  const Pass* pass;
  std::string file;
};

std::vector<GoldenCase> AllCases() {
  std::vector<GoldenCase> cases;
  for (const Pass& pass : kPasses)
    for (const std::string& file : GoldenFiles(pass.folder)) cases.push_back({&pass, file});
  return cases;
}

// "spmd/cases/05_k.mw" -> "cases_05_k".
std::string CaseName(const testing::TestParamInfo<GoldenCase>& info) {
  std::string name = info.param.file.substr(std::string_view("spmd/").size());
  name.resize(name.size() - std::string_view(".mw").size());
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

// The text behind "// wire: " in the file, if there is such a line: "1792", or "1792, 256 received" if the
// busiest link of a device carries more than the device receives.
std::optional<std::string> StatedWire(std::string_view text) {
  constexpr std::string_view kMark = "// wire: ";
  const size_t at = text.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  text = text.substr(at + kMark.size());
  return std::string(text.substr(0, text.find('\n')));
}

std::string Wire(const Graph& local) {
  int64_t bytes = 0, received = 0;
  for (const CollectiveSummary& summary : SummarizeCollectives(local)) {
    bytes += summary.bytes;
    received += summary.received;
  }
  return bytes == received ? fmt::format("{}", bytes) : fmt::format("{}, {} received", bytes, received);
}

class GoldenTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenTest, PassWritesTheExpectedProgram) {
  const auto& [pass, file] = GetParam();
  const std::string golden = ReadGolden(file);
  const size_t line = golden.find(kLine);
  const std::string input = golden.substr(0, line);
  const absl::StatusOr<Graph> graph = ParseGraph(input);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::string output = pass->text(*graph);
  ExpectGolden(file, input + std::string(kLine) + output);
  const absl::StatusOr<Graph> read = ParseGraph(output);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(output, testing::EndsWith(PrintGraph(*read))) << "the text does not read as what it says";
}

TEST_P(GoldenTest, WireBytesAreThoseStated) {
  const auto& [pass, file] = GetParam();
  const std::string golden = ReadGolden(file);
  const std::optional<std::string> stated = StatedWire(golden);
  if (!stated.has_value()) {
    EXPECT_FALSE(pass->folder.ends_with("cases")) << file << " states no bytes";
    return;
  }
  const absl::StatusOr<Graph> graph = ParseGraph(golden.substr(0, golden.find(kLine)));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(Wire(Compile(*graph, pass->options).value().body), *stated);
}

INSTANTIATE_TEST_SUITE_P(Passes, GoldenTest, testing::ValuesIn(AllCases()), CaseName);

// Folders of no pass in the table: parts of fit_memory, whole compiles.
const std::string_view kOthers[] = {"reorder", "recompute", "compile", "cases", "sharded_update_cases"};

TEST(GoldenFoldersTest, AreThoseOfThePasses) {
  std::set<std::string> expected(std::begin(kOthers), std::end(kOthers)), tested, found;
  for (const std::string& pass : PassNames()) {
    EXPECT_EQ(expected.count(pass), 0u) << pass << " is a pass; take it out of kOthers";
    expected.insert(pass);
  }
  for (const Pass& pass : kPasses) {
    tested.emplace(pass.folder.substr(std::string_view("spmd/").size()));
    EXPECT_FALSE(GoldenFiles(pass.folder).empty()) << pass.folder;
  }
  const auto is_program = [](const std::string& name) { return name.ends_with(".mw"); };
  for (const auto& entry : std::filesystem::directory_iterator(GoldenPath("spmd"))) {
    const std::string folder = entry.path().filename().string();
    const std::vector<std::string> files = GoldenFiles("spmd/" + folder);
    if (std::any_of(files.begin(), files.end(), is_program)) found.insert(folder);
  }
  EXPECT_EQ(tested, expected);
  expected.insert("mlp");  // mlp_test.cc
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace meshwork::golden_test
