// Attention whose blocks of keys and values go round, or stay while results are merged, on meshes of several
// shapes, is compared with attention on one device: results and gradients, bytes sent, memory, infinities in
// hidden places. A program that lacks a step is refused.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/verify.h"
#include "support/arguments.h"
#include "support/interpreter.h"
#include "support/tensors.h"

namespace meshwork::ring_attention_test {
namespace {

using Numbers = NumbersByName;

struct RingCase {
  DType dtype = F64;
  int64_t b = 4, s = 12, t = 12, h = 2, d = 5, e = 3;
  int64_t g = 1;         // heads of queries per head of keys
  bool repeats = false;  // k and v, so that no group is left
  bool causal = false, gradients = true;
  bool seen =
      false;  // each query is told how many keys it sees: none, some, more than there are, the least i32
  bool cuts_queries = true;  // as the keys are
};

// q, k and v are sharded along the axes "batch", "seq" and "model" that the mesh has.
Graph GraphOf(const Mesh& mesh, const RingCase& z, bool ring) {
  Graph graph(mesh);
  auto by = [&](const char* axis) { return mesh.FindAxes(axis).ok() ? DimSpec(axis) : DimSpec(UNSHARDED); };
  auto input = [&](const char* name, const Shape& shape, bool is_cut = true) {
    return graph.Input(name, z.dtype, shape,
                       {by("batch"), is_cut ? by("seq") : DimSpec(UNSHARDED), by("model"), UNSHARDED});
  };
  const Value q = input("q", {z.b, z.s, z.h * z.g, z.d}, z.cuts_queries),
              k = input("k", {z.b, z.t, z.h, z.d});
  const Value v = input("v", {z.b, z.t, z.h, z.e});
  Value seen;
  if (z.seen) {  // (3 i + 5 j) mod (t + 4)
    const Value places = Iota(graph, {I32, {z.b, z.s}}, 0) * 3 + Iota(graph, {I32, {z.b, z.s}}, 1) * 5;
    const Value counts = Remainder(places, static_cast<double>(z.t + 4));
    seen = Select(Equal(counts, static_cast<double>(z.t + 3)), -2147483648.0, counts);
  }
  const auto of_group = [&](const Value& x) { return z.repeats ? Repeat(x, z.g, 2) : x; };
  const Value y = Attention(q, of_group(k), of_group(v), {.causal = z.causal, .seen = seen, .ring = ring});
  graph.Output("y", y);
  if (!z.gradients) return graph;
  // Each element of the result has a weight of its own.
  const Value flat = Reshape(y, {y.type().num_elements()});
  const Value weights = Cast(Sin(Iota(graph, {F32, flat.shape()}, 0) + 1.0), z.dtype);
  const Value loss = ReduceSum(Square(y) + y * Reshape(weights, y.shape()), {0, 1, 2, 3});
  const std::vector<Value> gradients = Gradients(loss, {q, k, v});
  for (size_t i = 0; i < gradients.size(); ++i) graph.Output(fmt::format("grad{}", i), gradients[i]);
  return graph;
}

Numbers NumbersFor(const Graph& graph) {
  return DrawNumbers(graph, /*seed=*/7, [](Random& random, DType, int64_t) { return random.Uniform(-2, 2); });
}

// What the program gives on its mesh; padding is full of NaN.
Numbers RunOn(const Program& program, const Numbers& numbers) {
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  const auto executor =
      Executor::Create(program, backend, {.poison_padding = true, .check_replicas = true}, &state);
  EXPECT_TRUE(executor.ok()) << executor.status();
  std::map<std::string, Tensor> outputs;
  EXPECT_TRUE((*executor)->Run(PackArguments(program.body, numbers, state).value(), &outputs).ok());
  Numbers all;
  for (const auto& [name, tensor] : outputs) all[name] = NumbersOf(tensor);
  return all;
}

void ExpectAgrees(std::string_view mesh_text, const RingCase& z, double tolerance = 1e-10) {
  SCOPED_TRACE(fmt::format("{}, causal {}", mesh_text, z.causal));
  RingCase repeated = z;
  repeated.repeats = z.g > 1;
  const Graph one = GraphOf(Mesh(), repeated, /*ring=*/false);
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

Graph Compiled(std::string_view mesh, const RingCase& z, bool ring) {
  return Compile(GraphOf(Mesh::Parse(mesh).value(), z, ring)).value().body;
}

// `local` with an operand in the place of the result of node `n`.
Graph Without(const Graph& local, int n) {
  Rewriter rewriter(local);
  for (int i = 0; i < static_cast<int>(local.nodes().size()); ++i) {
    const Node& node = local.nodes()[i];
    if (i == n) rewriter.Set(node.results[0], rewriter.Map(node.operands)[0]);
    else rewriter.Copy(node);
  }
  return std::move(rewriter).Finish();
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
    // k and v go round; k and v again for q's gradient; q, the result's gradient, log-sums and shifts for the
    // gradients of k and v.
    EXPECT_EQ(Count(local, "exchange"), 3 * (2 + 2 + 4));
    for (const Node& node : local.nodes())
      EXPECT_TRUE(node.row->kind != OpKind::kCollective || node.row->name == "exchange") << node.row->name;
  }
}

// Groups of queries that share keys, on axes that divide the heads of keys, those of queries, or neither.
TEST(RingAttentionTest, OfGroupedHeads) {
  for (const char* mesh : {"seq=2", "seq=3,model=2", "batch=2,seq=2,model=3", "model=4,seq=2", "model=2",
                           "model=6", "model=1"}) {
    for (const auto& [h, g] : {std::pair(1, 2), {3, 3}, {2, 4}, {1, 5}}) {
      for (bool seen : {false, true}) {
        SCOPED_TRACE(fmt::format("{} h {} g {} seen {}", mesh, h, g, seen));
        ExpectAgrees(mesh, {.t = seen ? 10 : 12, .h = h, .g = g, .causal = !seen, .seen = seen});
        ExpectAgrees(
            mesh, {.s = 1, .t = 47, .h = h, .g = g, .gradients = seen, .seen = seen, .cuts_queries = false});
      }
    }
  }
}

// Short and empty blocks, blocks of keys with other ends than those of queries, and queries that see no keys.
TEST(RingAttentionTest, BlocksThatAreNotEqualGoRoundToo) {
  for (const auto& [mesh, s, t] :
       std::vector<std::tuple<const char*, int64_t, int64_t>>{{"seq=4", 10, 10},
                                                              {"seq=4", 5, 5},
                                                              {"seq=3", 1, 2},
                                                              {"seq=5", 8, 8},
                                                              {"batch=2,seq=2", 12, 24},
                                                              {"seq=4", 11, 6},
                                                              {"seq=2,model=2", 3, 7},
                                                              {"seq=4", 12, 12}}) {
    for (bool causal : {false, true}) {
      for (bool seen : {false, true}) {
        const RingCase z = {.s = s, .t = t, .causal = causal, .seen = seen};
        SCOPED_TRACE(fmt::format("s {} t {} seen {}", s, t, seen));
        const Graph local = Compiled(mesh, z, true);
        EXPECT_GT(Count(local, "exchange"), 0);
        // Between two devices a gather sends no more than an exchange; what says which keys are seen may take it.
        for (const Node& node : local.nodes()) {
          if (node.row->name == "all_gather") {
            EXPECT_EQ(local.value(node.results[0]).type.dtype, I32);
          }
        }
        ExpectAgrees(mesh, z);
      }
    }
  }
}

TEST(RingAttentionTest, WhatDoesNotGoRoundIsGathered) {
  const RingCase z = {.b = 3};  // examples that are not cut evenly
  const Graph local = Compiled("batch=2,seq=2", z, true);
  EXPECT_EQ(Count(local, "exchange"), 0);
  EXPECT_GT(Count(local, "all_gather") + Count(local, "all_to_all"), 0);
  ExpectAgrees("batch=2,seq=2", z);
}

// ---- Queries that are not cut as the keys are.

TEST(MergedAttentionTest, GivesTheOneDeviceResult) {
  for (const char* mesh :
       {"seq=2", "seq=3", "seq=8", "batch=2,seq=2", "seq=2,model=2", "batch=2,seq=2,model=2"}) {
    for (int64_t s : {1, 3}) {
      for (int64_t t : {48, 47, 50}) {
        for (bool causal : {false, true}) {
          for (bool seen : {false, true}) {
            SCOPED_TRACE(fmt::format("s {} t {} seen {}", s, t, seen));
            const RingCase z = {
                .s = s, .t = t, .causal = causal, .gradients = t == 47, .seen = seen, .cuts_queries = false};
            if (!z.gradients) {
              const Graph local = Compiled(mesh, z, false);
              // A maximum, and two sums together; or collectives that send less.
              EXPECT_LE(Count(local, "all_reduce") + Count(local, "all_gather") + Count(local, "all_to_all") +
                            Count(local, "reduce_scatter"),
                        2);
              // The padding of a short block is sent by nobody.
              for (const CollectiveSummary& summary : SummarizeCollectives(local)) {
                if (summary.type == "exchange") {
                  EXPECT_EQ(summary.bytes, 0);
                }
              }
            }
            ExpectAgrees(mesh, z);
          }
        }
      }
    }
  }
}

TEST(MergedAttentionTest, OfOtherDtypesAndEmptyBlocks) {
  const RingCase z = {.b = 1, .s = 1, .t = 9, .h = 1, .d = 4, .e = 2, .cuts_queries = false};
  ExpectAgrees("seq=8", z);
  for (DType dtype : {F32, BF16}) {
    RingCase other = z;
    other.dtype = dtype;
    other.t = 64;
    ExpectAgrees("seq=4", other, dtype == F32 ? 2e-5 : 3e-2);
  }
}

// The bytes of the results: a maximum and a sum of [b,s,h], and a sum of [b,s,h,e], reduced over 8 devices.
TEST(MergedAttentionTest, SendsAMaximumAndTwoSums) {
  const RingCase z = {.dtype = F32,
                      .b = 8,
                      .s = 1,
                      .t = 256,
                      .h = 8,
                      .d = 64,
                      .e = 64,
                      .gradients = false,
                      .cuts_queries = false};
  EXPECT_EQ(Wire(Compiled("seq=8", z, false)), 2 * 7 * (8 * 8 * 64 + 2 * 8 * 8) * 4 / 8);
}

// With as many queries as keys, gathering the keys sends less than adding up the results of all queries.
TEST(MergedAttentionTest, IsLeftWhereGatheringSendsLess) {
  const RingCase z = {.s = 48, .t = 48, .gradients = false};
  EXPECT_EQ(Count(Compiled("seq=4", z, false), "all_reduce"), 0);
  EXPECT_GT(Count(Compiled("seq=4", {.s = 2, .t = 96, .gradients = false}, false), "all_reduce"), 0);
}

TEST(MergedAttentionTest, AMergeThatIsWrongIsRefused) {
  const Graph global =
      GraphOf(Mesh::Parse("seq=4").value(),
              {.s = 1, .t = 47, .causal = true, .gradients = false, .cuts_queries = false}, false);
  const Graph local = Compile(global).value().body;
  EXPECT_TRUE(Verify(global, local).ok());
  int tried = 0;
  for (int n = 0; n < static_cast<int>(local.nodes().size()); ++n) {
    const Node& node = local.nodes()[n];
    // A node whose result has its operand's type may have no effect.
    if (node.operands.empty() || node.results.size() != 1 ||
        local.value(node.operands[0]).type != local.value(node.results[0]).type ||
        local.value(node.operands[0]).layout != local.value(node.results[0]).layout)
      continue;
    EXPECT_FALSE(Verify(global, Without(local, n)).ok()) << n << "\n" << PrintGraph(local);
    ++tried;
  }
  EXPECT_GT(tried, 3);
}

// ---- Infinities.

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Attention of one example and one head, by definition: it reads only keys that are seen.
struct Plain {
  int64_t s, t, d, e;
  std::vector<double> q, k, v;

  std::vector<double> Attend(const std::function<int64_t(int64_t query)>& seen) const {
    std::vector<double> y(static_cast<size_t>(s * e), 0.0);
    for (int64_t i = 0; i < s; ++i) {
      std::vector<double> score;
      for (int64_t j = 0; j < seen(i); ++j) {
        double sum = 0;
        for (int64_t c = 0; c < d; ++c) sum += q[i * d + c] * k[j * d + c];
        score.push_back(sum / std::sqrt(static_cast<double>(d)));
      }
      double top = -kInf, total = 0;
      for (double x : score) top = x > top || x != x ? x : top;
      if (top == -kInf) continue;
      for (double& x : score) total += x = std::exp(x - top);
      for (size_t j = 0; j < score.size(); ++j)
        for (int64_t c = 0; c < e; ++c) y[i * e + c] += score[j] / total * v[j * e + c];
    }
    return y;
  }
};

void ExpectAlike(const std::vector<double>& have, const std::vector<double>& want, const std::string& what) {
  ASSERT_EQ(have.size(), want.size());
  for (size_t i = 0; i < have.size(); ++i) {
    if (std::isfinite(want[i])) {
      EXPECT_NEAR(have[i], want[i], 1e-9) << what << "[" << i << "]";
    } else if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(have[i])) << what << "[" << i << "] " << have[i];
    } else {
      EXPECT_EQ(have[i], want[i]) << what << "[" << i << "]";
    }
  }
}

// An infinity or NaN in each place of q, k or v in turn, on one device and on meshes, in one tile and in several:
// a hidden key adds nothing, whatever its value; the keys that are seen give the numbers of the definition.
TEST(HiddenKeysTest, AddNothingWhateverTheyAre) {
  for (const int64_t t : {6, 150}) {
    for (const char* mesh : {"model=1", "seq=2", "seq=4"}) {
      for (const bool ring : {false, true}) {
        for (const bool by_seen : {false, true}) {
          const RingCase z = {.b = 1,
                              .s = t,
                              .t = t,
                              .h = 1,
                              .d = 2,
                              .e = 2,
                              .causal = !by_seen,
                              .gradients = false,
                              .seen = by_seen,
                              .cuts_queries = t == 150};
          const Graph graph = GraphOf(Mesh::Parse(mesh).value(), z, ring);
          const Program program = Compile(graph).value();
          Numbers numbers = NumbersFor(graph);
          const auto seen = [&](int64_t i) -> int64_t {
            if (!by_seen) return i + 1;
            const int64_t count = 5 * i % (t + 4);
            return count == t + 3 ? 0 : std::min(count, t);
          };
          for (const char* name : {"k", "v", "q"}) {
            for (const double bad : {kInf, -kInf, kNaN}) {
              for (const int64_t row : {t - 1, t / 2}) {
                Numbers changed = numbers;
                changed[name][static_cast<size_t>(2 * row)] = bad;
                const Plain plain = {t, t, 2, 2, changed["q"], changed["k"], changed["v"]};
                ExpectAlike(
                    RunOn(program, changed).at("y"), plain.Attend(seen),
                    fmt::format("{} ring {} seen {}: {}[{}] = {}: y", mesh, ring, by_seen, name, row, bad));
              }
            }
          }
        }
      }
    }
  }
}

// In gradients, an infinite key that no query sees changes only its own gradient, which is 0.
TEST(HiddenKeysTest, AddNothingToGradients) {
  for (const char* mesh : {"model=1", "seq=2", "seq=4"}) {
    for (const bool ring : {false, true}) {
      Graph graph(Mesh::Parse(mesh).value());
      const DimSpec cut = graph.mesh().FindAxes("seq").ok() ? DimSpec("seq") : DimSpec(UNSHARDED);
      std::vector<Value> in;
      for (const char* name : {"q", "k", "v"})
        in.push_back(graph.Input(name, F64, {1, 8, 1, 2}, {UNSHARDED, cut, UNSHARDED, UNSHARDED}));
      // Queries see up to five keys; the last query sees none.
      const Value i = Iota(graph, {I32, {1, 8}}, 1);
      const Value seen = Select(Less(i, 7.0), Remainder(i, 6), 0.0);
      const Value y = Attention(in[0], in[1], in[2], {.seen = seen, .ring = ring});
      graph.Output("y", y);
      const std::vector<Value> grads = Gradients(ReduceSum(y * Sin(y), {0, 1, 2, 3}), in);
      for (size_t g = 0; g < 3; ++g) graph.Output(fmt::format("grad{}", g), grads[g]);
      const Program program = Compile(graph).value();
      const Numbers numbers = NumbersFor(graph), want = RunOn(program, numbers);
      for (const double bad : {kInf, kNaN}) {
        for (const char* name : {"k", "v", "q"}) {
          Numbers changed = numbers;
          for (size_t at = name[0] == 'q' ? 14 : 12; at < 16; ++at) changed[name][at] = bad;
          for (const auto& [output, values] : RunOn(program, changed))
            ExpectAlike(values, want.at(output), fmt::format("{} {} {}: {}", mesh, name, bad, output));
        }
      }
    }
  }
}

// Scores so far apart that hidden keys have infinitely larger weights than the keys that are seen.
TEST(RingAttentionTest, WhatIsHiddenDoesNotShow) {
  const RingCase z = {.b = 1, .s = 4, .t = 4, .h = 1, .d = 1, .e = 1, .causal = true};
  const Graph graph = GraphOf(Mesh::Parse("seq=4").value(), z, true);
  const Numbers numbers = {{"q", {1, 1, 1, 1}}, {"k", {0, 900, 1800, 2700}}, {"v", {1, 2, 3, 4}}};
  const Numbers found = RunOn(Compile(graph).value(), numbers);
  for (const auto& [name, value] : Interpret(GraphOf(Mesh(), z, false), numbers).outputs)
    EXPECT_THAT(found.at(name), testing::Pointwise(testing::DoubleNear(1e-10), value.Numbers())) << name;
}

TEST(RingAttentionTest, SendsNoMoreThanAGather) {
  for (const char* mesh : {"seq=2", "seq=8", "batch=2,seq=4"}) {
    const RingCase z = {.s = 64, .t = 64, .d = 16, .e = 16, .gradients = false};
    EXPECT_EQ(Wire(Compiled(mesh, z, true)), Wire(Compiled(mesh, z, false))) << mesh;
  }
}

TEST(RingAttentionTest, HoldsLessThanWhatIsGathered) {
  constexpr int64_t kBlock = int64_t{1} * 64 / 8 * 2 * 16 * 4;  // of each of q, k, v and y
  for (bool gradients : {false, true}) {
    const RingCase z = {
        .dtype = F32, .b = 1, .s = 64, .t = 64, .d = 16, .e = 16, .causal = true, .gradients = gradients};
    const int64_t ring = LogicalPeakBytes(Compiled("seq=8", z, true));
    const int64_t gathered = LogicalPeakBytes(Compiled("seq=8", z, false));
    EXPECT_GE(gathered, 2 * 8 * kBlock);
    EXPECT_LT(ring, gathered) << PrintMemoryReport(Compiled("seq=8", z, true),
                                                   ReportMemory(Compiled("seq=8", z, true), 40));
    // In a ring twice as long, a device holds no more blocks.
    RingCase longer = z;
    longer.s = longer.t = 128;
    EXPECT_LT(LogicalPeakBytes(Compiled("seq=16", longer, true)), ring + kBlock);
  }
}

TEST(RingAttentionTest, CountsAsNothingThatIsGatheredUnasked) {
  const Graph graph = GraphOf(Mesh::Parse("seq=4").value(), {.dtype = F32, .s = 64, .t = 64, .d = 16}, true);
  EXPECT_TRUE(Compile(graph, {.replication_budget = 0}).ok());
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
}  // namespace meshwork::ring_attention_test
