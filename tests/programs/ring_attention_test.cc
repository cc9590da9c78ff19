// Attention whose blocks of keys and values go round, on meshes of several shapes, beside attention on one
// device: results and gradients, what is sent, what is held, and that a program with a step missing is
// refused.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/gradients.h"
#include "ops/memory_report.h"
#include "ops/ops.h"
#include "ops/program.h"
#include "ops/rewrite.h"
#include "ops/text.h"
#include "runtime/executor.h"
#include "spmd/compile.h"
#include "spmd/verify.h"
#include "support/interpreter.h"
#include "support/tensors.h"
#include "train/random.h"

namespace meshwork {
namespace {

using Numbers = std::map<std::string, std::vector<double>>;

struct Case {
  DType dtype = F64;
  int64_t b = 4, s = 12, t = 12, h = 2, d = 5, e = 3;
  bool causal = false, gradients = true;
};

// q, k and v by the axes "batch", "seq" and "model", where the mesh has them.
Graph GraphOf(const Mesh& mesh, const Case& z, bool ring) {
  Graph graph(mesh);
  auto by = [&](const char* axis) { return mesh.FindAxes(axis).ok() ? DimSpec(axis) : DimSpec(UNSHARDED); };
  auto input = [&](const char* name, const Shape& shape) {
    return graph.Input(name, z.dtype, shape, {by("batch"), by("seq"), by("model"), UNSHARDED});
  };
  const Value q = input("q", {z.b, z.s, z.h, z.d}), k = input("k", {z.b, z.t, z.h, z.d});
  const Value v = input("v", {z.b, z.t, z.h, z.e});
  const Value y = Attention(q, k, v, {.causal = z.causal, .ring = ring});
  graph.Output("y", y);
  if (!z.gradients) return graph;
  // Each element has a weight of its own.
  const Value flat = Reshape(y, {y.type().num_elements()});
  const Value weights = Cast(Sin(Iota(graph, {F32, flat.shape()}, 0) + 1.0), z.dtype);
  const Value loss = ReduceSum(Square(y) + y * Reshape(weights, y.shape()), {0, 1, 2, 3});
  const std::vector<Value> gradients = Gradients(loss, {{q, k, v}});
  for (size_t i = 0; i < gradients.size(); ++i) graph.Output(fmt::format("grad{}", i), gradients[i]);
  return graph;
}

Numbers NumbersFor(const Graph& graph) {
  Numbers numbers;
  Random random(7);
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    for (int64_t i = 0; i < info.type.num_elements(); ++i)
      numbers[info.name].push_back(random.Uniform(-2, 2));
  }
  return numbers;
}

// What the program gives on its mesh; padding is full of NaN.
Numbers RunOn(const Program& program, const Numbers& numbers) {
  WorkerPool pool(2);
  std::map<std::string, DTensor> state;
  const auto executor =
      Executor::Create(program, pool, {.poison_padding = true, .check_replicas = true}, &state);
  EXPECT_TRUE(executor.ok()) << executor.status();
  std::map<std::string, Tensor> feeds, outputs;
  for (const Argument& argument : program.body.arguments()) {
    const ValueInfo& info = program.body.value(argument.value);
    feeds.emplace(info.name, ToTensor(HostTensor(info.global, numbers.at(info.name))));
  }
  EXPECT_TRUE((*executor)->Run(feeds, &outputs).ok());
  Numbers all;
  for (const auto& [name, tensor] : outputs) all[name] = NumbersOf(tensor);
  return all;
}

void ExpectAgrees(std::string_view mesh_text, const Case& z, double tolerance = 1e-10) {
  SCOPED_TRACE(fmt::format("{}, causal {}", mesh_text, z.causal));
  const Graph one = GraphOf(Mesh(), z, /*ring=*/false);
  ASSERT_TRUE(one.status().ok()) << one.status();
  const Graph graph = GraphOf(Mesh::Parse(mesh_text).value(), z, /*ring=*/true);
  const absl::StatusOr<Program> program = Compile(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  const Numbers numbers = NumbersFor(graph), found = RunOn(*program, numbers);
  for (const auto& [name, value] : Interpret(one, numbers).outputs) {
    const std::vector<double>&have = found.at(name), want = value.Numbers();
    ASSERT_EQ(have.size(), want.size()) << name;
    for (size_t i = 0; i < have.size(); ++i)
      ASSERT_NEAR(have[i], want[i], tolerance * std::max(1.0, std::abs(want[i])))
          << name << "[" << i << "]\n"
          << PrintGraph(program->body);
  }
}

int Count(const Graph& local, std::string_view op) {
  return static_cast<int>(std::count_if(local.nodes().begin(), local.nodes().end(),
                                        [&](const Node& node) { return node.row->name == op; }));
}

int64_t Wire(const Graph& local) {
  int64_t bytes = 0;
  for (const CollectiveSummary& summary : SummarizeCollectives(local)) bytes += summary.bytes;
  return bytes;
}

Graph Compiled(std::string_view mesh, const Case& z, bool ring) {
  return Compile(GraphOf(Mesh::Parse(mesh).value(), z, ring)).value().body;
}

TEST(RingAttentionTest, GivesTheOneDeviceResult) {
  for (const char* mesh : {"seq=2", "seq=3", "seq=4", "seq=6", "batch=2,seq=2", "seq=3,batch=2",
                           "batch=2,seq=2,model=2", "model=2,seq=3"}) {
    for (bool causal : {false, true}) ExpectAgrees(mesh, {.causal = causal});
    ExpectAgrees(mesh, {.t = 24});
  }
}

TEST(RingAttentionTest, OfOtherDtypes) {
  for (bool causal : {false, true}) {
    ExpectAgrees("batch=2,seq=4", {.dtype = F32, .causal = causal}, 2e-5);
    ExpectAgrees("batch=2,seq=4", {.dtype = BF16, .causal = causal}, 3e-2);
  }
}

TEST(RingAttentionTest, NothingIsGathered) {
  for (bool causal : {false, true}) {
    const Graph local = Compiled("batch=2,seq=4,model=2", {.causal = causal}, true);
    // k and v; again for the gradient of q; q, the result's gradient, log-sums and shifts for those of k and
    // v.
    EXPECT_EQ(Count(local, "exchange"), 3 * (2 + 2 + 4));
    for (const Node& node : local.nodes())
      EXPECT_TRUE(node.row->kind != OpKind::kCollective || node.row->name == "exchange") << node.row->name;
  }
}

TEST(RingAttentionTest, WhatDoesNotGoRoundIsGathered) {
  const std::vector<std::pair<const char*, Case>> cases = {
      {"seq=4", {.s = 10, .t = 10}},                  // blocks that are not equal
      {"seq=4", {.s = 12, .t = 24, .causal = true}},  // blocks whose ends are not those of queries
      {"batch=2,seq=2", {.b = 3}},                    // examples that are not cut evenly
  };
  for (const auto& [mesh, z] : cases) {
    const Graph local = Compiled(mesh, z, true);
    EXPECT_EQ(Count(local, "exchange"), 0) << mesh;
    EXPECT_GT(Count(local, "all_gather"), 0) << mesh;
    ExpectAgrees(mesh, z);
  }
}

// Scores so far apart that what a causal mask hides is infinitely larger than what it shows.
TEST(RingAttentionTest, WhatIsHiddenDoesNotShow) {
  const Case z = {.b = 1, .s = 4, .t = 4, .h = 1, .d = 1, .e = 1, .causal = true};
  const Graph graph = GraphOf(Mesh::Parse("seq=4").value(), z, true);
  const Numbers numbers = {{"q", {1, 1, 1, 1}}, {"k", {0, 900, 1800, 2700}}, {"v", {1, 2, 3, 4}}};
  const Numbers found = RunOn(Compile(graph).value(), numbers);
  for (const auto& [name, value] : Interpret(GraphOf(Mesh(), z, false), numbers).outputs)
    EXPECT_THAT(found.at(name), testing::Pointwise(testing::DoubleNear(1e-10), value.Numbers())) << name;
}

TEST(RingAttentionTest, SendsNoMoreThanAGather) {
  for (const char* mesh : {"seq=2", "seq=8", "batch=2,seq=4"}) {
    const Case z = {.s = 64, .t = 64, .d = 16, .e = 16, .gradients = false};
    EXPECT_EQ(Wire(Compiled(mesh, z, true)), Wire(Compiled(mesh, z, false))) << mesh;
  }
}

TEST(RingAttentionTest, HoldsLessThanWhatIsGathered) {
  constexpr int64_t kBlock = int64_t{1} * 64 / 8 * 2 * 16 * 4;  // of each of q, k, v and y
  for (bool gradients : {false, true}) {
    const Case z = {
        .dtype = F32, .b = 1, .s = 64, .t = 64, .d = 16, .e = 16, .causal = true, .gradients = gradients};
    const int64_t ring = LogicalPeakBytes(Compiled("seq=8", z, true));
    const int64_t gathered = LogicalPeakBytes(Compiled("seq=8", z, false));
    EXPECT_GE(gathered, 2 * 8 * kBlock);
    EXPECT_LT(ring, gathered) << PrintMemoryReport(Compiled("seq=8", z, true),
                                                   ReportMemory(Compiled("seq=8", z, true), 40));
    // Of a ring twice as long a device holds no more blocks.
    Case longer = z;
    longer.s = longer.t = 128;
    EXPECT_LT(LogicalPeakBytes(Compiled("seq=16", longer, true)), ring + kBlock);
  }
}

TEST(RingAttentionTest, CountsAsNothingThatIsGatheredUnasked) {
  const Graph graph = GraphOf(Mesh::Parse("seq=4").value(), {.dtype = F32, .s = 64, .t = 64, .d = 16}, true);
  EXPECT_TRUE(Compile(graph, {.replication_budget = 0}).ok());
}

// `local` with the operand for the result of node `n`.
Graph Without(const Graph& local, int n) {
  Rewriter rewriter(local);
  for (int i = 0; i < static_cast<int>(local.nodes().size()); ++i) {
    const Node& node = local.nodes()[i];
    if (i == n) rewriter.Set(node.results[0], rewriter.Map(node.operands)[0]);
    else rewriter.Copy(node);
  }
  return std::move(rewriter).Finish();
}

TEST(RingAttentionTest, AStepThatIsMissingIsRefused) {
  for (bool causal : {false, true}) {
    const Graph global = GraphOf(Mesh::Parse("batch=2,seq=3").value(), {.causal = causal}, true);
    const Graph local = Compile(global).value().body;
    EXPECT_TRUE(Verify(global, local).ok());
    int tried = 0;
    for (int n = 0; n < static_cast<int>(local.nodes().size()); ++n) {
      if (local.nodes()[n].row->name != "exchange") continue;
      EXPECT_FALSE(Verify(global, Without(local, n)).ok()) << n << "\n" << PrintGraph(local);
      ++tried;
    }
    EXPECT_EQ(tried, 2 * (2 + 2 + 4));
  }
}

}  // namespace
}  // namespace meshwork
