// Ops that a program adds to those of the library: they are found, parsed, printed, compiled, proven and run
// like those.
#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/registry.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/sample.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/read_back.h"
#include "support/swiglu.h"

namespace meshwork::register_op_test {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Pointwise;

// Registered once, whichever test comes first.
const OpRow& Swiglu() {
  static const absl::Status status = RegisterOp(SwigluRow());
  MESHWORK_CHECK(status.ok(), "{}", MessageOf(status));
  return GetOp("swiglu");
}

TEST(RegisterOpTest, ARowIsFoundOnceItIsRegistered) {
  const std::vector<const OpRow*>& before = AllOps();
  const size_t count = before.size();
  EXPECT_FALSE(FindOp("found_later").ok());
  ASSERT_EQ(RegisterOp(SwigluRow("found_later")), absl::OkStatus());
  EXPECT_EQ(before.size(), count) << "a list that somebody reads does not change";
  EXPECT_EQ(AllOps().size(), count + 1);
  const OpRow* row = FindOp("found_later").value();
  EXPECT_EQ(AllOps().back(), row);
  EXPECT_EQ(&GetOp("found_later"), row);
  EXPECT_THAT(std::string(MessageOf(FindOp("found_latter").status())),
              HasSubstr("did you mean \"found_later\"?"));
  for (const OpFamily& family : OpFamilies())
    for (const OpRow& built_in : family.rows) EXPECT_NE(built_in.name, "found_later");
}

TEST(RegisterOpTest, ARowKeepsWhatItsTextsName) {
  {
    std::string name = "short_lived", doc = "d", sample = "f32[4], f32[4]; scale=2", attribute = "scale";
    OpRow row = SwigluRow(name);
    row.doc = doc;
    row.samples = {sample};
    row.attrs = {{attribute, AttrKind::kFloat, 1.0}};
    ASSERT_EQ(RegisterOp(row), absl::OkStatus());
    for (std::string* text : {&name, &doc, &sample, &attribute}) std::fill(text->begin(), text->end(), '#');
  }
  const OpRow& row = GetOp("short_lived");
  EXPECT_EQ(row.doc, "d");
  EXPECT_EQ(row.attrs[0].name, "scale");
  EXPECT_EQ(ParseSample(row, row.samples[0]).value().attrs.Get<double>("scale"), 2);
}

// ---- In programs.

constexpr std::string_view kProgram = R"(mesh [data=2, model=2]
func f(%x: f64[4,6] {data,_},
     %y: f64[4,6] {_,model},
     %w: f64[6,3] {model,_}) {
  %0 = swiglu %x, %y : f64[4,6]
  %1 = matmul %0, %w : f64[4,3]
  return h=%0, p=%1
}
)";

// Elements 0.5, 1, 1.5, ….
Tensor Counting(const Shape& shape) {
  std::vector<double> numbers;
  for (int64_t i = 1; i <= NumElements(shape); ++i) numbers.push_back(0.5 * static_cast<double>(i));
  return Tensor::From(shape, numbers);
}

std::map<std::string, Tensor> RunProgram(const Graph& graph, const std::map<std::string, Tensor>& feeds) {
  const Program program = Compile(graph).value();
  CpuBackend backend(2);
  std::map<std::string, DTensor> variables;
  std::map<std::string, Tensor> outputs;
  const absl::Status status =
      Executor::Create(program, backend, {.poison_padding = true}, &variables).value()->Run(feeds, &outputs);
  EXPECT_TRUE(status.ok()) << status;
  return outputs;
}

TEST(RegisterOpTest, ATextThatUsesTheOpReadsBack) {
  Swiglu();
  const absl::StatusOr<Graph> graph = ParseGraph(kProgram);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes()[0].row, &Swiglu());
  EXPECT_EQ(PrintGraph(*graph), kProgram);
  // The program of each device prints and parses, too; Compile has proven it.
  const absl::StatusOr<Program> program = Compile(*graph, {.verify = true});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(PrintGraph(program->body), HasSubstr(" = swiglu "));
  EXPECT_EQ(ReadBackError(program->body), "");
}

TEST(RegisterOpTest, AProgramGivesOnEveryMeshWhatTheFormulaGives) {
  Swiglu();
  const std::map<std::string, Tensor> feeds = {
      {"x", Counting({4, 6})}, {"y", Counting({4, 6})}, {"w", Counting({6, 3})}};
  std::vector<double> expected;
  for (double v : feeds.at("x").values<double>()) expected.push_back(v / (1 + std::exp(-v)) * v);
  for (std::string_view mesh : {"data=1, model=1", "data=2, model=2", "data=3, model=1", "data=4, model=5"}) {
    std::string text(kProgram);
    text.replace(text.find('[') + 1, text.find(']') - text.find('[') - 1, mesh);
    const auto outputs = RunProgram(ParseGraph(text).value(), feeds);
    EXPECT_THAT(outputs.at("h").values<double>(), Pointwise(testing::DoubleNear(1e-12), expected)) << mesh;
    std::vector<double> product(12, 0.0);
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < 6; ++k)
        for (int j = 0; j < 3; ++j)
          product[i * 3 + j] += expected[i * 6 + k] * feeds.at("w").values<double>()[k * 3 + j];
    EXPECT_THAT(outputs.at("p").values<double>(), Pointwise(testing::DoubleNear(1e-9), product)) << mesh;
  }
}

TEST(RegisterOpTest, WhatIsLinearLetsASumWait) {
  Swiglu();
  // The second operand owes a sum over x, and so does the result: one number is reduced at the end.
  const Program program = Compile(ParseGraph(R"(mesh [x=2]
func f(%a: f32[4] {_}, %b: f32[4,6] {_,x}) {
  %s = reduce_sum %b dims=[1]
  %y = swiglu %a, %s
  %z = reduce_sum %y dims=[0]
  return z=%z
})")
                                      .value())
                              .value();
  std::vector<std::string> ops;
  for (const Node& node : program.body.nodes()) ops.emplace_back(node.row->name);
  EXPECT_THAT(ops, ElementsAreArray({"reduce_sum", "swiglu", "reduce_sum", "all_reduce"}));
}

TEST(RegisterOpTest, MistakesNameTheOpAndTheLine) {
  Swiglu();
  Graph g(Mesh::Parse("x=2").value());
  const Value x = g.Input("x", F32, {4}, {"x"}), y = g.Input("y", F64, {4}, {"x"});
  g.Add("swiglu", {{x, y}}, {}, {"model.cc", 41});
  EXPECT_EQ(MessageOf(g.status()),
            "swiglu (model.cc:41): takes two alike, f32 or f64, got f32[4] and f64[4].");
}

// ---- Threads.

TEST(RegisterOpTest, OpsAreFoundWhileOthersAreRegistered) {
  Swiglu();
  constexpr int kThreads = 3, kOps = 40;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < kOps; ++i) {
        const std::string name = fmt::format("of_thread_{}_{}", t, i);
        EXPECT_EQ(RegisterOp(SwigluRow(name)), absl::OkStatus());
        EXPECT_EQ(FindOp(name).value()->name, name);
        EXPECT_TRUE(ParseGraph(kProgram).ok());
        for (const OpRow* row : AllOps()) EXPECT_FALSE(row->name.empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t)
    for (int i = 0; i < kOps; ++i) EXPECT_TRUE(FindOp(fmt::format("of_thread_{}_{}", t, i)).ok());
}

// ---- Rows that are not registered.

TEST(TrialRowTest, IsSeenByThisThreadWhileItLives) {
  const OpRow row = SwigluRow("on_trial"), other = SwigluRow("neg");
  const OpRow* neg = &GetOp("neg");
  const size_t count = AllOps().size();
  {
    const TrialRow trial(row);
    EXPECT_EQ(FindOp("on_trial").value(), &row);
    EXPECT_EQ(AllOps().size(), count + 1);
    {
      const TrialRow in_place_of_neg(other);
      EXPECT_EQ(&GetOp("neg"), &other);
      EXPECT_EQ(AllOps().size(), count + 1);
    }
    EXPECT_EQ(&GetOp("neg"), neg);
    std::thread([] { EXPECT_FALSE(FindOp("on_trial").ok()); }).join();
  }
  EXPECT_FALSE(FindOp("on_trial").ok());
}

}  // namespace
}  // namespace meshwork::register_op_test
