// Training with weight-update sharding: the numbers of one device, in doubles, with less memory per device
// and no more on the wire.
#include "meshwork/spmd/shard_weight_update.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/random.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/verify/verify.h"
#include "nlohmann/json.hpp"
#include "runtime/plan/programs.h"
#include "support/temp_dir.h"

namespace meshwork::shard_weight_update_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kBatch = 24;

// With model=4, blocks are uneven. Batch=3 does not divide the blocks that model=2 halves.
constexpr const char* kMeshes[] = {"batch=8",         "batch=5",         "batch=6",   "batch=4,model=2",
                                   "model=2,batch=3", "batch=2,model=4", "batch=2*4", "copies=2,batch=4"};

Optimizer Make(const std::string& name, std::optional<double> clip_norm) {
  if (name == "Sgd") return Sgd({.learning_rate = 0.05, .clip_norm = clip_norm});
  if (name == "Momentum") return Momentum({.learning_rate = 0.05, .clip_norm = clip_norm});
  if (name == "Nesterov") return Nesterov({.learning_rate = 0.05, .clip_norm = clip_norm});
  if (name == "Adagrad") return Adagrad({.learning_rate = 0.05, .clip_norm = clip_norm});
  if (name == "RmsProp") return RmsProp({.learning_rate = 0.01, .clip_norm = clip_norm});
  if (name == "CenteredRmsProp")
    return RmsProp({.learning_rate = 0.01, .momentum = 0.5, .centered = true, .clip_norm = clip_norm});
  if (name == "AdamW") return AdamW({.learning_rate = 0.01, .weight_decay = 0.1, .clip_norm = clip_norm});
  return Adam({.learning_rate = 0.01, .clip_norm = clip_norm});
}
struct Case {
  std::string optimizer;
  bool clips = false;
};
const Case kCases[] = {{"Sgd"},     {"Momentum"},        {"Momentum", true}, {"Nesterov"},   {"Adagrad"},
                       {"RmsProp"}, {"CenteredRmsProp"}, {"Adam"},           {"Adam", true}, {"AdamW"}};

// Layers 20-14-10-4. Kernels are cut by columns and by rows if the mesh has an axis model.
Graph Perceptron(const std::string& mesh, const Optimizer& optimizer) {
  Graph g(Mesh::Parse(mesh).value());
  auto axis_or_whole = [&](const char* name) {
    return g.mesh().FindAxes(name).ok() ? DimSpec(name) : DimSpec(UNSHARDED);
  };
  const DimSpec batch = axis_or_whole("batch"), model = axis_or_whole("model");
  Value x = g.Input("x", F64, {kBatch, 20}, {batch, UNSHARDED});
  Value y = g.Input("y", I32, {kBatch}, {batch});
  Dense dense1(g, "dense1", 20, 14,
               {.kernel_layout = {UNSHARDED, model}, .bias_layout = {model}, .dtype = F64});
  Dense dense2(g, "dense2", 14, 10, {.kernel_layout = {model, UNSHARDED}, .dtype = F64});
  Dense dense3(g, "dense3", 10, 4, {.dtype = F64});
  Value loss = SparseSoftmaxCrossEntropy(dense3(Tanh(dense2(Tanh(dense1(x))))), y);
  optimizer.Minimize(loss);
  g.Output("loss", loss);
  return g;
}

// Messages take no time, so that no weight is too small for parts of axes.
Topology WithoutLatency(const Mesh& mesh) {
  std::vector<Topology::AxisLink> links;
  for (const Axis& axis : mesh.axes()) links.push_back({axis.name, {.bandwidth = 1e10, .latency = 0}});
  return Topology::Create(mesh, links).value();
}

CompileOptions Sharding(const Graph& graph) {
  return {.topology = WithoutLatency(graph.mesh()), .shard_weight_update = true};
}

Session MakeSession(const Graph& graph, bool shard) {
  return Session::Create(graph, {.workers = 2,
                                 .seed = 5,
                                 .compile = shard ? Sharding(graph) : CompileOptions(),
                                 .executor = {.poison_padding = true, .check_replicas = true}})
      .value();
}

Feeds MakeFeeds(int64_t rows, uint64_t seed) {
  Random random(seed);
  std::vector<double> x;
  std::vector<int32_t> y;
  for (int64_t i = 0; i < rows; ++i) {
    y.push_back(static_cast<int32_t>(random.Below(4)));
    for (int64_t j = 0; j < 20; ++j) x.push_back(random.Uniform(-1, 1) + (j % 4 == y.back()));
  }
  return {{"x", Tensor::From<double>({rows, 20}, x)}, {"y", Tensor::From<int32_t>({rows}, y)}};
}

// Losses of full batches, a shorter one, and of an evaluation.
std::vector<double> Train(Session& session, uint64_t seed) {
  std::vector<double> losses;
  for (uint64_t step = 0; step < 4; ++step)
    losses.push_back(
        session.Run(MakeFeeds(step == 2 ? 17 : kBatch, 10 * seed + step))->scalar("loss").value());
  losses.push_back(session.Evaluate(MakeFeeds(kBatch, seed))->scalar("loss").value());
  return losses;
}

void ExpectSame(const Session& a, const Session& b) {
  ASSERT_EQ(a.variable_names(), b.variable_names());
  for (const std::string& name : a.variable_names()) {
    const Tensor x = a.Get(name).value(), y = b.Get(name).value();
    if (x.dtype() != F64) {
      EXPECT_TRUE(BitwiseEqual(x, y)) << name;
      continue;
    }
    for (int64_t i = 0; i < x.num_elements(); ++i)
      ASSERT_NEAR(x.values<double>()[i], y.values<double>()[i], 1e-9) << name << "[" << i << "]";
  }
}

void ExpectSame(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-9) << i;
}

int64_t WireOf(const Program& program) {
  int64_t bytes = 0;
  for (const CollectiveSummary& summary : SummarizeCollectives(program.body)) bytes += summary.bytes;
  return bytes;
}

// An upper bound for the bytes that sums of scalars send: 2(n-1)/n·8 bytes each.
int64_t WireOfScalars(const Program& program) {
  int64_t bytes = 0;
  for (const Node& node : program.body.nodes())
    for (ValueId id : node.operands)
      if (node.row->kind == OpKind::kCollective && program.body.value(id).type.rank() == 0) bytes += 2 * 8;
  return bytes;
}

// An upper bound for rounding: WireBytes rounds each collective to whole bytes.
int64_t Rounding(const Program& program) {
  int64_t collectives = 0;
  for (const CollectiveSummary& summary : SummarizeCollectives(program.body)) collectives += summary.count;
  return collectives;
}

std::string LayoutOf(const Program& program, const std::string& variable) {
  const Graph& local = program.body;
  return local.value(local.arguments()[local.FindArgument(variable)].value).layout->ToString();
}

class ShardWeightUpdateTest : public testing::TestWithParam<Case> {
 protected:
  Optimizer optimizer() const {
    return Make(GetParam().optimizer, GetParam().clips ? std::optional(0.5) : std::nullopt);
  }
};

TEST_P(ShardWeightUpdateTest, TrainsAsOnOneDevice) {
  Session one = MakeSession(Perceptron("batch=1", optimizer()), /*shard=*/false);
  const std::vector<double> losses = Train(one, 1);
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    Session session = MakeSession(Perceptron(mesh, optimizer()), /*shard=*/true);
    ExpectSame(Train(session, 1), losses);
    ExpectSame(session, one);
  }
}

TEST_P(ShardWeightUpdateTest, SendsNoMoreAndHoldsLess) {
  const auto& [name, clips] = GetParam();
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    const Graph graph = Perceptron(mesh, optimizer());
    const Program plain = Compile(graph, {.topology = WithoutLatency(graph.mesh())}).value();
    const Program sharded = Compile(graph, Sharding(graph)).value();
    EXPECT_LE(WireOf(sharded), WireOf(plain) + (clips ? WireOfScalars(sharded) : 0) + Rounding(sharded));
    EXPECT_THAT(plain.sharded_state, IsEmpty());
    if (name == "Sgd") EXPECT_EQ(PrintGraph(sharded.body), PrintGraph(plain.body));
    else EXPECT_EQ(sharded.sharded_state.empty(), std::string_view(mesh) == "model=2,batch=3");
    for (const std::string layer : {"dense1", "dense2", "dense3"})
      for (const char* part : {"/kernel", "/bias"})
        EXPECT_EQ(Layout::Parse(sharded.body.mesh(), LayoutOf(plain, layer + part)).value().ToString(),
                  LayoutOf(sharded, layer + part));
    EXPECT_EQ(PrintGraph(Compile(graph, Sharding(graph))->body), PrintGraph(sharded.body));
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ShardWeightUpdateTest, testing::ValuesIn(kCases), [](const auto& info) {
  return info.param.optimizer + (info.param.clips ? "Clipped" : "");
});

TEST(ShardedStateTest, TakesAShareOfItsBytes) {
  const Graph graph = Perceptron("batch=2,model=2", Adam({}));
  const Program plain = Compile(graph).value();
  const Program sharded = Compile(graph, {.shard_weight_update = true}).value();
  auto bytes_of_state = [](const Program& program) {
    int64_t bytes = 0;
    for (const Argument& argument : program.body.arguments()) {
      const ValueInfo& info = program.body.value(argument.value);
      if (info.name.starts_with("adam/") && info.name != "adam/step") bytes += info.type.bytes();
    }
    return bytes;
  };
  // Two moments of 20·7 + 7 + 7·10 + 10 + 10·4 + 4 doubles on a device, halved but for the bias of 7.
  EXPECT_EQ(bytes_of_state(plain), 2 * 8 * 271);
  EXPECT_EQ(bytes_of_state(sharded), 2 * 8 * (70 + 7 + 35 + 5 + 20 + 2));
  EXPECT_LT(ReportMemory(sharded.body).peak_bytes, ReportMemory(plain.body).peak_bytes);
}

TEST(ShardedStateTest, IsExplained) {
  const Graph graph = Perceptron("batch=4", Momentum({}));
  const Program program = Compile(graph, {.shard_weight_update = true}).value();
  EXPECT_EQ(program.decisions[0],
            "%momentum/m/dense1/kernel = {batch,_} instead of {_,_}: weight-update sharding");
  EXPECT_THAT(ToText(Explain(program)),
              HasSubstr("laid out by weight-update sharding:\n"
                        "  %momentum/m/dense1/kernel {batch,_} instead of {_,_}\n"));
  EXPECT_EQ(ToJson(Explain(program))["sharded_state"][0]["to"], "{batch,_}");
  EXPECT_THAT(ToText(Explain(Compile(graph).value())), Not(HasSubstr("weight-update sharding")));
}

TEST(ShardedStateTest, IsProvenForTheProgramThatSaysWhereItLies) {
  const Graph graph = Perceptron("batch=8", Adam({}));
  const Program program = Compile(graph, Sharding(graph)).value();
  const Graph sharded = WithShardedState(graph, program);
  EXPECT_EQ(Verify(sharded, program.body).status(), absl::OkStatus());
  EXPECT_FALSE(Verify(graph, program.body).ok());
  // The program with its sharded layouts written down compiles to the same without the option (before choose_layouts).
  const PassControl before{.left_out = {"choose_layouts"}};
  EXPECT_EQ(WireOf(CompileWith(sharded, {}, before).value()),
            WireOf(CompileWith(graph, Sharding(graph), before).value()));
}

TEST(ShardedStateTest, IsLeftAloneWhereItIsShardedAlready) {
  const Graph graph = Perceptron("batch=8", Adam({}));
  const Program program = Compile(graph, Sharding(graph)).value();
  const Program again = Compile(WithShardedState(graph, program), Sharding(graph)).value();
  EXPECT_THAT(again.sharded_state, IsEmpty());
}

class ShardedStateFileTest : public TempDirTest {};

// Half the steps on one mesh, the other half on another, from a file of whole tensors.
TEST_F(ShardedStateFileTest, IsSavedWholeAndLoadedOnAnyMesh) {
  Session one = MakeSession(Perceptron("batch=1", Adam({})), /*shard=*/false);
  Train(one, 1);
  const std::vector<double> losses = Train(one, 2);
  using Move = std::tuple<const char*, bool, const char*, bool>;
  for (const auto& [from, shards_from, to, shards_to] :
       {Move{"batch=8", true, "batch=4,model=2", true}, Move{"batch=4,model=2", true, "batch=3", false},
        Move{"model=2", false, "batch=6", true}}) {
    SCOPED_TRACE(fmt::format("{} to {}", from, to));
    const std::string path = Path("state.safetensors");
    Session first = MakeSession(Perceptron(from, Adam({})), shards_from);
    Train(first, 1);
    std::vector<std::pair<std::string, Tensor>> saved;
    for (const std::string& name : first.variable_names()) saved.emplace_back(name, first.Get(name).value());
    ASSERT_EQ(WriteSafetensors(path, saved), absl::OkStatus());
    Session second = MakeSession(Perceptron(to, Adam({})), shards_to);
    const std::vector<std::pair<std::string, Tensor>> loaded = ReadSafetensors(path).value();
    for (const auto& [name, tensor] : loaded) ASSERT_EQ(second.Set(name, tensor), absl::OkStatus());
    ExpectSame(Train(second, 2), losses);
    ExpectSame(second, one);
  }
}

}  // namespace
}  // namespace meshwork::shard_weight_update_test
