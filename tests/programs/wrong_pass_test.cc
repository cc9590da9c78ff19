// A pass makes a wrong program. If the pass is optional, it is left out, and the program is right, with a
// warning; otherwise the compile is refused.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/spmd/passes.h"
#include "support/golden.h"
#include "support/program_trial.h"

namespace meshwork::wrong_pass_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A program that most passes change: it has two sums that are regrouped, a weight that is kept, a cumulative
// op along a sharded dim, a reshape for which the mesh is cut, reductions that share a bucket, a loop.
constexpr std::string_view kProgram = R"(mesh [x=4]
func step(%a: f64[8,6] {x,_}, %b: f64[8,6] {x,_}, var %w: f64[6,6] {x,_} gather=on_use, var %m: f64[6,6] {_,_},
     %s: f64[32] {x}) {
  %dead = exp %a
  %h = matmul %a, %w
  %t = tanh %h
  %same = tanh %h
  %p = matmul %a, %t transpose_a=true
  %q = matmul %b, %same transpose_a=true
  %pm = add %p, %m
  %sum = add %pm, %q
  %norm = reduce_sum %t dims=[0,1]
  %other = reduce_sum %b dims=[0]
  %c = cumsum %s dim=0
  %r = reshape %s shape=[2,16]
  %last = scan %t length=2 (var %v: f64[8,6]) {
    %n = tanh %v
    update %v = %n
  }
  %d = sub %w, %p
  update %w = %d
  update %m = %sum
  return sum=%sum, norm=%norm, other=%other, c=%c, r=%r, last=%last
}
)";

// A program that needs less memory in another order.
constexpr std::string_view kLateReaders = R"(mesh [x=4]
func step(%a: f64[512,6] {x,_}) {
  %b = tanh %a
  %c = exp %a
  %d = cos %a
  %sb = reduce_sum %b dims=[0]
  %sc = reduce_sum %c dims=[0]
  %sd = reduce_sum %d dims=[0]
  return sb=%sb, sc=%sc, sd=%sd
}
)";

RandomProgram TheProgram(std::string_view text = kProgram) {
  return WithFeeds(ParseGraph(text, "step.mw").value());
}

// tanh becomes sin.
Graph Wrong(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    Node copy = node;
    if (node.row->name == "tanh") copy.row = &GetOp("sin");
    rewriter.Copy(copy);
  }
  return std::move(rewriter).Finish();
}

PassControl WrongIn(std::vector<std::string> passes) {
  return {.tamper = [passes](std::string_view pass, Graph made) {
    return std::find(passes.begin(), passes.end(), pass) == passes.end() ? made : Wrong(made);
  }};
}

struct CompiledText {
  absl::StatusOr<Program> program;
  std::vector<std::string> warnings;
};

CompiledText CompileWrong(const PassControl& control, CompileOptions options,
                          std::string_view text = kProgram) {
  CompiledText compiled{absl::InternalError(""), {}};
  options.warn = [&](std::string_view line) { compiled.warnings.emplace_back(line); };
  compiled.program = CompileWith(TheProgram(text).graph, options, control);
  return compiled;
}

std::vector<std::string> LeftOut(const Program& program) {
  std::vector<std::string> passes;
  for (const LeftOutPass& pass : program.left_out) passes.push_back(pass.pass);
  return passes;
}

std::string RunError(const Program& program, std::string_view text = kProgram) {
  const RandomProgram random = TheProgram(text);
  CpuBackend backend(2);
  return TryCompiled(random, ExpectedOf(random), backend, program, {}).error();
}

TEST(WrongPassTest, AnOptionalOneIsLeftOut) {
  for (const char* pass :
       {"share_subexpressions", "drop_dead_code", "regroup_sums", "carry_summaries",
        "share_subexpressions_local", "drop_dead_code_local", "bucket_reductions", "place_gathers"}) {
    SCOPED_TRACE(pass);
    const CompiledText compiled = CompileWrong(WrongIn({pass}), {.wrong_pass = WrongPass::kLeaveOut});
    ASSERT_TRUE(compiled.program.ok()) << compiled.program.status();
    EXPECT_THAT(LeftOut(*compiled.program), ElementsAre(pass));
    EXPECT_EQ(RunError(*compiled.program), "");
    ASSERT_EQ(compiled.warnings.size(), 1u);
    EXPECT_THAT(compiled.warnings[0],
                StartsWith(fmt::format("warning: Compile: \"step\" is compiled without {}, "
                                       "which made a wrong program of it.",
                                       pass)));
    EXPECT_THAT(compiled.warnings[0], HasSubstr("Please report it: Verify: "));
    const Explanation explanation = Explain(*compiled.program);
    EXPECT_THAT(ToText(explanation), StartsWith(compiled.warnings[0] + "\n"));
    EXPECT_EQ(ToJson(explanation)["left_out"][0]["pass"].get<std::string>(), pass);
  }
}

TEST(WrongPassTest, IsRefusedWhereItIsAskedFor) {
  for (const char* pass : {"regroup_sums", "share_subexpressions_local", "bucket_reductions"}) {
    const CompiledText compiled = CompileWrong(WrongIn({pass}), {.wrong_pass = WrongPass::kRefuse});
    EXPECT_EQ(compiled.program.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(MessageOf(compiled.program.status())),
                StartsWith("Compile made a wrong program; please report it. Verify: "));
    EXPECT_THAT(compiled.warnings, IsEmpty());
  }
}

// Passes that every program needs are not left out.
TEST(WrongPassTest, IsRefusedWhereItIsNotOptional) {
  for (const char* pass : {"fold_sizes", "open_loops", "mark_uses", "propagate", "insert_relayouts",
                           "close_loops", "localize"}) {
    PassControl control = WrongIn({pass});
    control.left_out = {"choose_layouts"};  // it may write a program of its own
    const CompiledText compiled = CompileWrong(control, {.wrong_pass = WrongPass::kLeaveOut});
    EXPECT_EQ(compiled.program.status().code(), absl::StatusCode::kInternal) << pass;
    EXPECT_THAT(compiled.warnings, IsEmpty());
  }
}

// Only the wrong passes are left out.
TEST(WrongPassTest, AllThatAreWrongAreLeftOut) {
  const CompiledText compiled =
      CompileWrong(WrongIn({"regroup_sums", "bucket_reductions"}), {.wrong_pass = WrongPass::kLeaveOut});
  ASSERT_TRUE(compiled.program.ok()) << compiled.program.status();
  EXPECT_THAT(LeftOut(*compiled.program), ElementsAre("regroup_sums", "bucket_reductions"));
  EXPECT_EQ(RunError(*compiled.program), "");
  EXPECT_EQ(compiled.warnings.size(), 1u);
}

// Leaving out a pass does not help if the program then does not fit.
TEST(WrongPassTest, WhatMakesItFitStays) {
  const auto compile = [](std::vector<std::string> left_out, int64_t budget) {
    return CompileWith(TheProgram(kLateReaders).graph, {.memory_budget = budget},
                       {.left_out = std::move(left_out)});
  };
  std::vector<std::string> others = OptionalPasses();
  std::erase(others, "fit_memory");
  int64_t budget = LogicalPeakBytes(compile(others, 0)->body);
  while (compile(others, budget - 8).ok()) budget -= 8;
  ASSERT_FALSE(compile(OptionalPasses(), budget).ok()) << "it fits by itself";
  const CompiledText compiled =
      CompileWrong(WrongIn({"share_subexpressions", "drop_dead_code"}),
                   {.memory_budget = budget, .wrong_pass = WrongPass::kLeaveOut}, kLateReaders);
  ASSERT_TRUE(compiled.program.ok()) << compiled.program.status();
  EXPECT_THAT(LeftOut(*compiled.program), testing::Not(testing::Contains("fit_memory")));
  EXPECT_LE(LogicalPeakBytes(compiled.program->body), budget);
  EXPECT_EQ(RunError(*compiled.program, kLateReaders), "");
}

PassControl CheckFailsIn(std::string pass) {
  return {.tamper = [pass](std::string_view made_by, Graph made) {
    MESHWORK_CHECK(made_by != pass, "in {}", pass);
    return made;
  }};
}

// A CHECK that a program fails becomes a status, and the program is saved.
TEST(WrongPassTest, ACheckThatFailsIsAStatus) {
  for (const char* pass : {"fold_sizes", "propagate", "insert_relayouts", "localize", "bucket_reductions"}) {
    SCOPED_TRACE(pass);
    const CompiledText compiled = CompileWrong(CheckFailsIn(pass), {.wrong_pass = WrongPass::kRefuse});
    EXPECT_EQ(compiled.program.status().code(), absl::StatusCode::kInternal);
    const std::string message(MessageOf(compiled.program.status()));
    EXPECT_THAT(message,
                testing::AllOf(StartsWith("Compile: meshwork bug, please report it: "),
                               HasSubstr("wrong_pass_test.cc"),
                               HasSubstr(fmt::format("CHECK(made_by != pass) failed: in {}", pass))));
    constexpr std::string_view kSaved = " The program is in ";
    const size_t at = message.find(kSaved);
    ASSERT_NE(at, std::string::npos);
    const std::string path = message.substr(at + kSaved.size(), message.size() - at - kSaved.size() - 1);
    std::ifstream file(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), PrintGraph(TheProgram().graph)) << path;
    std::filesystem::remove(path);
  }
}

TEST(WrongPassTest, AnOptionalOneWhoseCheckFailsIsLeftOut) {
  for (const char* pass : {"share_subexpressions", "regroup_sums", "carry_summaries", "bucket_reductions"}) {
    SCOPED_TRACE(pass);
    const CompiledText compiled = CompileWrong(CheckFailsIn(pass), {.wrong_pass = WrongPass::kLeaveOut});
    ASSERT_TRUE(compiled.program.ok()) << compiled.program.status();
    EXPECT_THAT(LeftOut(*compiled.program), ElementsAre(pass));
    EXPECT_EQ(RunError(*compiled.program), "");
    ASSERT_EQ(compiled.warnings.size(), 1u);
    EXPECT_THAT(compiled.warnings[0], HasSubstr(fmt::format("failed: in {}", pass)));
  }
}

TEST(WrongPassTest, TheEnvironmentSaysWhatIsDone) {
  const char* const before = std::getenv("MESHWORK_STRICT");
  ASSERT_STREQ(before, "1") << "tests are strict (support/strict.cc)";
  EXPECT_FALSE(CompileWrong(WrongIn({"bucket_reductions"}), {}).program.ok());
  setenv("MESHWORK_STRICT", "0", 1);
  EXPECT_TRUE(CompileWrong(WrongIn({"bucket_reductions"}), {}).program.ok());
  setenv("MESHWORK_STRICT", "1", 1);
}

TEST(WrongPassTest, RightProgramsLeaveNothingOutAndSayNothing) {
  const CompiledText compiled = CompileWrong({}, {.wrong_pass = WrongPass::kLeaveOut});
  ASSERT_TRUE(compiled.program.ok()) << compiled.program.status();
  EXPECT_THAT(compiled.program->left_out, IsEmpty());
  EXPECT_THAT(compiled.warnings, IsEmpty());
}

// Every program is right without any of the optional passes, and without all of them.
TEST(WrongPassTest, ProgramsAreRightWithoutOptionalPasses) {
  std::vector<std::vector<std::string>> choices = {OptionalPasses()};
  for (const std::string& pass : OptionalPasses()) choices.push_back({pass});
  EXPECT_THAT(
      OptionalPasses(),
      ElementsAre("share_subexpressions", "drop_dead_code", "shard_weight_update", "regroup_sums", "cut_mesh",
                  "carry_summaries", "choose_layouts", "repeat_layers", "share_subexpressions_local",
                  "drop_dead_code_local", "bucket_reductions", "place_gathers", "fit_memory"));
  for (const std::vector<std::string>& left_out : choices) {
    const absl::StatusOr<Program> program =
        CompileWith(TheProgram().graph, {.wrong_pass = WrongPass::kRefuse}, {.left_out = left_out});
    ASSERT_TRUE(program.ok()) << left_out[0] << ": " << program.status();
    EXPECT_EQ(RunError(*program), "") << left_out[0];
    for (const PassTiming& pass : program->passes)
      EXPECT_EQ(std::count(left_out.begin(), left_out.end(), pass.pass), 0);
  }
  for (const std::string& file : GoldenFiles("spmd/cases")) {
    const std::string text = ReadGolden(file);
    const absl::StatusOr<Graph> graph = ParseGraph(text.substr(0, text.find("----\n")));
    ASSERT_TRUE(graph.ok()) << file << graph.status();
    for (const std::vector<std::string>& left_out : choices) {
      const absl::StatusOr<Program> program =
          CompileWith(*graph, {.wrong_pass = WrongPass::kRefuse}, {.left_out = left_out});
      // The program may gather more than it is allowed to.
      EXPECT_NE(program.status().code(), absl::StatusCode::kInternal)
          << file << " without " << left_out[0] << ": " << program.status();
    }
  }
}

}  // namespace
}  // namespace meshwork::wrong_pass_test
