// The multilayer perceptron of examples/mlp_mnist, compiled for two meshes: its training step has exactly the
// expected collectives.
#include <tuple>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/compile.h"
#include "support/golden.h"

namespace meshwork::mlp_test {
namespace {

using testing::ElementsAre;

constexpr int64_t kBatch = 128;

struct Layer {
  Variable kernel, bias;
};

// The layout of a layer's kernel on the axis "model", if the mesh has it.
enum class Cut { kColumns, kRows, kNone };

class Perceptron {
 public:
  Perceptron(std::string_view mesh, const std::vector<int64_t>& sizes, const std::vector<Cut>& cuts,
             int64_t batch = kBatch)
      : graph_(Mesh::Parse(mesh).value()) {
    const bool has_model = graph_.mesh().FindAxes("model").ok();
    Value h = graph_.Input("x", F32, {batch, sizes[0]}, {"batch", UNSHARDED});
    const Value labels = graph_.Input("y", I32, {batch}, {"batch"});
    for (size_t i = 0; i < cuts.size(); ++i) {
      const DimSpec rows = has_model && cuts[i] == Cut::kRows ? DimSpec("model") : UNSHARDED;
      const DimSpec columns = has_model && cuts[i] == Cut::kColumns ? DimSpec("model") : UNSHARDED;
      const std::string name = fmt::format("dense{}", i + 1);
      const Layer layer = {Var(name + "/kernel", {sizes[i], sizes[i + 1]}, {rows, columns}),
                           Var(name + "/bias", {sizes[i + 1]}, {columns})};
      h = MatMul(h, layer.kernel) + layer.bias;
      if (i + 1 < cuts.size()) h = Relu(h);
      parameters_.push_back(layer.kernel);
      parameters_.push_back(layer.bias);
    }
    loss_ = SparseSoftmaxCrossEntropy(h, labels);
    graph_.Output("loss", loss_);
    graph_.Output("accuracy", Accuracy(h, labels));
  }

  void Sgd(double learning_rate) {
    const std::vector<Value> gradients = ParameterGradients();
    for (size_t i = 0; i < parameters_.size(); ++i)
      graph_.Update(parameters_[i], parameters_[i] - gradients[i] * learning_rate);
  }

  void Adam(double learning_rate) {
    const std::vector<Value> gradients = ParameterGradients();
    const Variable step = graph_.Var("step", {Type{I64, {}}, nullptr}, {});
    const Value now = step + 1;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Variable& w = parameters_[i];
      const Variable m = Like(w, "/m"), v = Like(w, "/v");
      const AdamResult result = AdamUpdate(w, gradients[i], m, v, now, learning_rate, 0.9, 0.999, 1e-8);
      graph_.Update(w, result.weight);
      graph_.Update(m, result.first_moment);
      graph_.Update(v, result.second_moment);
    }
    graph_.Update(step, now);
  }

  Program Compiled(const CompileOptions& options = {}) const { return Compile(graph_, options).value(); }

 private:
  Variable Var(std::string_view name, const Shape& shape, const LayoutSpec& layout) {
    return graph_.Var(name, Initializer{Type{F32, shape}, nullptr}, layout);
  }
  Variable Like(const Variable& w, std::string_view suffix) {
    const ValueInfo& info = graph_.value(w.id());
    return Var(info.name + std::string(suffix), info.type.shape, SpecOf(*info.layout));
  }
  std::vector<Value> ParameterGradients() {
    return Gradients(loss_, std::vector<Value>(parameters_.begin(), parameters_.end()));
  }

  Graph graph_;
  std::vector<Variable> parameters_;
  Value loss_;
};

Perceptron Mnist(std::string_view mesh) {
  return Perceptron(mesh, {784, 700, 500, 10}, {Cut::kColumns, Cut::kRows, Cut::kNone});
}

// Two pairs of layers that are cut by columns, then rows.
Perceptron TwoPairs(std::string_view mesh) {
  return Perceptron(mesh, {784, 700, 500, 300, 10}, {Cut::kColumns, Cut::kRows, Cut::kColumns, Cut::kRows});
}

// "all_reduce (batch): f32[784,700], f32[700]" per collective, global types.
std::vector<std::string> CollectivesOf(const Program& program) {
  std::vector<std::string> lines;
  for (const Node& node : program.body.nodes()) {
    if (node.row->kind != OpKind::kCollective) continue;
    std::string types;
    for (ValueId id : node.operands)
      types += (types.empty() ? "" : ", ") + program.body.value(id).global.ToString();
    lines.push_back(fmt::format("{} {}: {}", node.row->name,
                                program.body.mesh().AxesToString(node.attrs.Get<AxisList>("axes")), types));
  }
  return lines;
}

constexpr std::string_view kModelSum = "all_reduce (model): f32[128,500]";
// With the metrics.
constexpr std::string_view kGradients =
    "all_reduce (batch): f32[], f32[], f32[784,700], f32[700], f32[700,500], f32[500], f32[500,10], f32[10]";
// Adam reads each gradient as soon as it is computed, last layer first.
constexpr std::string_view kGradientsBackward =
    "all_reduce (batch): f32[], f32[], f32[10], f32[500,10], f32[500], f32[700,500], f32[700], f32[784,700]";

int64_t WireOf(const Program& program) {
  int64_t bytes = 0;
  for (const CollectiveSummary& summary : SummarizeCollectives(program.body)) bytes += summary.bytes;
  return bytes;
}

TEST(MlpTest, DataParallelSgdSumsGradientsAndMetricsOnce) {
  Perceptron mlp = Mnist("batch=8");
  mlp.Sgd(0.1);
  const Program program = mlp.Compiled();
  EXPECT_THAT(CollectivesOf(program), ElementsAre(kGradients));
  ExpectGolden("spmd/mlp/batch8.mw", PrintGraph(program.body));
}

TEST(MlpTest, TensorParallelSgdAddsOneSumForward) {
  Perceptron mlp = Mnist("batch=4,model=2");
  mlp.Sgd(0.1);
  const Program program = mlp.Compiled();
  EXPECT_THAT(CollectivesOf(program), ElementsAre(kModelSum, kGradients));
  ExpectGolden("spmd/mlp/batch4_model2.mw", PrintGraph(program.body));
}

TEST(MlpTest, AdamNeedsNoMoreThanSgd) {
  Perceptron data = Mnist("batch=8"), tensor = Mnist("batch=4,model=2");
  data.Adam(1e-3);
  tensor.Adam(1e-3);
  EXPECT_THAT(CollectivesOf(data.Compiled()), ElementsAre(kGradientsBackward));
  EXPECT_THAT(CollectivesOf(tensor.Compiled()), ElementsAre(kModelSum, kGradientsBackward));
}

// docs/concepts.md has the numbers.
TEST(MlpTest, ShardedUpdatesTakeAnEighthOfTheLargeState) {
  Perceptron mlp = Mnist("batch=8");
  mlp.Adam(1e-3);
  const Program plain = mlp.Compiled(), sharded = mlp.Compiled({.shard_weight_update = true});
  auto bytes_of_moments = [](const Program& program) {
    int64_t bytes = 0;
    for (const Argument& argument : program.body.arguments()) {
      const ValueInfo& info = program.body.value(argument.value);
      if (info.name.ends_with("/m") || info.name.ends_with("/v")) bytes += info.type.bytes();
    }
    return bytes;
  };
  constexpr int64_t kLarge = 784 * 700 + 700 * 500, kSmall = 700 + 500 + 500 * 10 + 10;
  EXPECT_EQ(bytes_of_moments(plain), 2 * 4 * (kLarge + kSmall));
  EXPECT_EQ(bytes_of_moments(sharded), 2 * 4 * (kLarge / 8 + kSmall));
  EXPECT_EQ(LogicalPeakBytes(plain.body), 18100224);
  EXPECT_EQ(LogicalPeakBytes(sharded.body), 5564976);
  EXPECT_EQ(WireOf(plain), 6335084);
  EXPECT_EQ(WireOf(sharded), 3729788);
}

TEST(MlpTest, BytesOnTheWireAreThoseOfTheParameters) {
  Perceptron mlp = Mnist("batch=4,model=2");
  mlp.Sgd(0.1);
  std::vector<std::tuple<std::string, std::string, int64_t, int64_t>> found;
  for (const CollectiveSummary& s : SummarizeCollectives(mlp.Compiled().body))
    found.emplace_back(s.type, s.axes, s.count, s.bytes);
  // The all-reduces: [32,500] over 2 devices; half of the first three parameters, and the others, over 4; two scalars.
  const int64_t forward = 2 * 1 * 32 * 500 * 4 / 2;
  const int64_t gradients = 2 * 3 * (784 * 350 + 350 + 350 * 500 + 500 + 500 * 10 + 10) * 4 / 4;
  const int64_t metrics = 2 * 3 * 2 * 4 / 4;
  EXPECT_THAT(found, ElementsAre(std::tuple("all_reduce", "(model)", 1, forward),
                                 std::tuple("all_reduce", "(batch)", 1, gradients + metrics)));
}

// The bias of a layer cut by rows is whole; it is added to the sum, not to each device's part of it.
TEST(MlpTest, BiasIsAddedOnceAfterTheSum) {
  Perceptron mlp = Mnist("batch=4,model=2");
  mlp.Sgd(0.1);
  const Program program = mlp.Compiled();
  const Graph& local = program.body;
  const ValueId bias = local.arguments()[local.FindArgument("dense2/bias")].value;
  int adds = 0;
  for (const Node& node : local.nodes()) {
    if (node.row->name != "add" || node.operands[1] != bias) continue;
    ++adds;
    const ValueInfo& sum = local.value(node.operands[0]);
    EXPECT_FALSE(sum.layout->is_partial());
    EXPECT_EQ(local.nodes()[sum.node].row->name, "all_reduce");
  }
  EXPECT_EQ(adds, 1);
}

// Forward one sum per pair; backward one sum where the gradient leaves the second pair for the first.
TEST(MlpTest, TwoPairsAddOneSumBackward) {
  Perceptron mlp = TwoPairs("batch=4,model=2");
  mlp.Sgd(0.1);
  EXPECT_THAT(
      CollectivesOf(mlp.Compiled()),
      ElementsAre(
          kModelSum, "all_reduce (model): f32[128,10]", kModelSum,
          "all_reduce (batch): f32[], f32[], f32[784,700], f32[700], f32[700,500], f32[500], f32[500,300], "
          "f32[300], f32[300,10], f32[10]"));
}

TEST(MlpTest, AnUnevenBatchNeedsNoMore) {
  for (std::string_view mesh : {"batch=3", "batch=7"}) {
    Perceptron mlp = Mnist(mesh);
    mlp.Adam(1e-3);
    EXPECT_THAT(CollectivesOf(mlp.Compiled()), ElementsAre(kGradientsBackward)) << mesh;
  }
}

// The local program without its sizes: "matmul {batch,_ | sum:model}" per node.
std::vector<std::string> LayoutsOf(const Program& program) {
  std::vector<std::string> lines;
  for (const Node& node : program.body.nodes()) {
    lines.emplace_back(node.row->name);
    for (ValueId id : node.results) lines.back() += " " + program.body.value(id).layout->ToString();
  }
  return lines;
}

TEST(MlpTest, AMillionDevicesRunTheProgramOfEight) {
  auto compile = [](int64_t batch, int64_t model) {
    const int64_t units = 32 * model;
    Perceptron mlp(fmt::format("batch={},model={}", batch, model), {units, units, units, 10},
                   {Cut::kColumns, Cut::kRows, Cut::kNone}, 16 * batch);
    mlp.Adam(1e-3);
    return mlp.Compiled();
  };
  const std::vector<std::string> few = LayoutsOf(compile(4, 2));
  EXPECT_GT(few.size(), 20);
  EXPECT_EQ(LayoutsOf(compile(1024, 1024)), few);
}

TEST(MlpTest, OneDeviceNeedsNoCollective) {
  Perceptron mlp = Mnist("batch=1");
  mlp.Adam(1e-3);
  EXPECT_THAT(CollectivesOf(mlp.Compiled()), ElementsAre());
}

}  // namespace
}  // namespace meshwork::mlp_test
