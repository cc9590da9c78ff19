// Tables of embeddings on a GPU: on every mesh, lookups and updates of rows take few launches and touch few rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_backend/caught_plan.h"
#include "cuda_backend/plan_costs.h"
#include "cuda_backend/played_gpu.h"
#include "cuda_backend/start_weights.h"
#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/nn/tensor_constant.h"
#include "meshwork/train/nn/transformer_layers.h"
#include "meshwork/train/optim/optimizers.h"

namespace meshwork::tables_test {
namespace {

using ::testing::IsEmpty;

// A DLRM (Naumov et al., arXiv 1906.00091): a table for each feature, the products of all pairs, a layer.
struct TablesModel {
  int64_t tables = 26, rows = 100000, units = 64, batch = 8192;
  std::string_view mesh = "[]";
  std::string_view axis_of_rows = "";  // "": tables are whole on each device
  std::function<void(const Value&)> minimize = [](const Value& loss) {
    Adagrad({.learning_rate = 0.1}).Minimize(loss);
  };
};

// features: [batch,f,units] -> the products of all pairs of different features, [batch,f·(f-1)/2].
Value ProductsOfPairs(const Value& features) {
  const int64_t f = features.shape()[1];
  std::vector<int32_t> pairs;
  for (int64_t i = 0; i < f; ++i)
    for (int64_t j = 0; j < i; ++j) pairs.push_back(static_cast<int32_t>(i * f + j));
  const Value products = Flatten(MatMul(features, features, /*transpose_a=*/false, /*transpose_b=*/true));
  return Gather(products, Constant(*features.graph(), Tensor::From<int32_t>({std::ssize(pairs)}, pairs)), 1);
}

Graph GraphOf(const TablesModel& model) {
  Graph graph(Mesh::Parse(model.mesh).value());
  const DimSpec by_rows =
      model.axis_of_rows.empty() ? DimSpec(UNSHARDED) : DimSpec(std::string(model.axis_of_rows));
  graph.SetLayouts({.layouts = {{"*/table", {by_rows, UNSHARDED}},
                                {"ids", {"batch", UNSHARDED}},
                                {"wanted", {"batch", UNSHARDED}}},
                    .missing_axes = MissingAxes::kShardNothing});
  const Value ids = graph.Input("ids", I32, {model.batch, model.tables});
  const Value wanted = graph.Input("wanted", F32, {model.batch, 1});
  std::vector<Value> features;
  for (int64_t t = 0; t < model.tables; ++t)
    features.push_back(Embedding(graph, fmt::format("feature{}", t), model.rows,
                                 model.units)(Squeeze(SliceDim(ids, 1, t, t + 1), 1)));
  const Value joined = Concat({features[0], ProductsOfPairs(Stack(features, 1))}, 1);
  const Value hidden = Relu(Dense(graph, "hidden", 16)(joined));
  const Value loss = MeanSquaredError(Dense(graph, "rating", 1)(hidden), wanted);
  model.minimize(loss);
  graph.Output("loss", loss);
  return graph;
}

PlanCosts CostsOf(const TablesModel& model) {
  return PlanCosts(OrderForFusion(CaughtPlanOf(GraphOf(model))));
}

void MinimizeByAdam(const Value& loss) { Adam({.learning_rate = 0.1}).Minimize(loss); }
void MinimizeByLazyAdam(const Value& loss) { Adam({.learning_rate = 0.1, .lazy = true}).Minimize(loss); }

// Meshes of logical devices, and the axis that shards the rows of tables, if any.
struct MeshOfTables {
  std::string_view mesh, axis_of_rows;
};
constexpr MeshOfTables kMeshes[] = {
    {"[batch=8]", ""}, {"[batch=2, model=4]", "model"}, {"[batch=1, model=8]", "model"}};

TEST(CudaTablesPlanTest, LookupsAreOneLaunch) {
  // The second gather takes the products of pairs.
  EXPECT_EQ(CostsOf({}).LaunchesOf("gather"), 2);
  for (const auto& [mesh, axis] : kMeshes) {
    SCOPED_TRACE(mesh);
    EXPECT_EQ(CostsOf({.mesh = mesh, .axis_of_rows = axis}).LaunchesOf("gather"), 2);
  }
}

// On no mesh is a gradient as large as the table computed.
TEST(CudaTablesPlanTest, LazyUpdatesAreOneLaunchThatTouchesRowsAlone) {
  const TablesModel one;
  const int64_t table = one.rows * one.units * DTypeSize(F32);
  for (const PlanCosts& costs : {CostsOf(one), CostsOf({.minimize = MinimizeByLazyAdam})}) {
    EXPECT_EQ(costs.LaunchesOf("scatter_add+"), 1);
    // A dense update would write a gradient, and read and write the weights.
    EXPECT_LT(costs.bytes(), 26 * 3 * table);
  }
  EXPECT_GT(CostsOf({.minimize = MinimizeByAdam}).bytes(), 26 * 8 * table);
  for (const auto& [mesh, axis] : kMeshes) {
    SCOPED_TRACE(mesh);
    EXPECT_EQ(CostsOf({.mesh = mesh, .axis_of_rows = axis}).LaunchesOf("scatter_add+"), 1);
  }
}

TEST(CudaTablesPlanTest, LogicalDevicesCostLittleMoreThanOne) {
  for (const bool by_adam : {false, true}) {
    TablesModel model{.tables = 8};
    if (by_adam) model.minimize = MinimizeByAdam;
    const PlanCosts one = CostsOf(model);
    for (const auto& [mesh, axis] : kMeshes) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, by_adam));
      model.mesh = mesh;
      model.axis_of_rows = axis;
      const PlanCosts all = CostsOf(model);
      EXPECT_LE(all.bytes(), 1.3 * static_cast<double>(one.bytes()));
      EXPECT_LE(all.launches(), 1.3 * static_cast<double>(one.launches()));
    }
  }
}

struct TrainedTables {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> state;
};

// Three steps from fixed weights; only the first third of the rows is looked up, many of them several times.
TrainedTables TrainTables(Backend& backend, const TablesModel& model, const ExecutorOptions& options) {
  const Program program = Compile(GraphOf(model)).value();
  std::map<std::string, DTensor> state;
  const auto executor = Executor::Create(program, backend, options, &state).value();
  EXPECT_EQ(MessageOf(PackStartWeights(state)), "");
  TrainedTables trained;
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<int32_t> ids(static_cast<size_t>(model.batch * model.tables));
    std::vector<float> wanted(static_cast<size_t>(model.batch));
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] =
          static_cast<int32_t>((5 * i + static_cast<size_t>(step)) % static_cast<size_t>(model.rows / 3));
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = std::sin(static_cast<float>(i));
    std::map<std::string, Tensor> outputs;
    const absl::Status ran = executor->Run({{"ids", Tensor::From<int32_t>({model.batch, model.tables}, ids)},
                                            {"wanted", Tensor::From<float>({model.batch, 1}, wanted)}},
                                           &outputs);
    EXPECT_EQ(MessageOf(ran), "");
    trained.losses.push_back(outputs.at("loss").Scalar().value());
  }
  for (const auto& [name, variable] : state) {
    if (variable.type().dtype != F32) continue;
    const Tensor tensor = Unpack(variable).value();
    for (const float number : tensor.values<float>()) trained.state[name].push_back(number);
  }
  return trained;
}

// 4 does not divide 43 rows, so that the last block of rows has padding.
TablesModel SmallTables(std::string_view mesh, std::string_view axis) {
  TablesModel model{.tables = 3, .rows = 43, .units = 6, .batch = 24, .mesh = mesh, .axis_of_rows = axis};
  model.minimize = [](const Value& loss) {
    AdamW({.learning_rate = 0.1, .weight_decay = 0.1, .lazy = true}).Minimize(loss);
  };
  return model;
}

TEST(CudaTablesRunsTest, TrainingsGiveTheSameBitsInFewLaunches) {
  for (const auto& [mesh, axis] :
       {MeshOfTables{"[]", ""}, {"[batch=4]", ""}, {"[batch=2, model=4]", "model"}}) {
    const TablesModel model = SmallTables(mesh, axis);
    for (const bool atomic : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, atomic));
      TrainedTables trained[2];
      for (const bool fuse : {false, true}) {
        PlayedGpu gpu(1);
        trained[fuse] = TrainTables(*gpu.MakeBackend().value(), model,
                                    {.fuse = fuse, .poison_padding = true, .atomic = atomic});
        EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
        EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty());
      }
      EXPECT_EQ(trained[0].losses, trained[1].losses);
      for (const auto& [name, numbers] : trained[0].state)
        EXPECT_EQ(numbers, trained[1].state.at(name)) << name;
      CpuBackend cpu(2);
      const TrainedTables expected = TrainTables(cpu, model, {.poison_padding = true});
      for (size_t step = 0; step < expected.losses.size(); ++step)
        EXPECT_NEAR(trained[1].losses[step], expected.losses[step], 1e-4 * expected.losses[step]);
      EXPECT_NE(expected.losses[0], expected.losses[2]);
    }
  }
}

TEST(CudaTablesRunsTest, RowsThatNobodyLooksUpStay) {
  const TablesModel model = SmallTables("[batch=4]", "");
  PlayedGpu gpu(1);
  const TrainedTables trained = TrainTables(*gpu.MakeBackend().value(), model, {});
  for (const std::string name : {"feature1/table", "adamw/m/feature1/table", "adamw/v/feature1/table"}) {
    const std::vector<float>& numbers = trained.state.at(name);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const float before = StartWeight(i);
      if (i >= static_cast<size_t>(model.rows / 3 * model.units))
        EXPECT_EQ(numbers[i], before) << name << " " << i;
      else EXPECT_NE(numbers[i], before) << name << " " << i;
    }
  }
}

}  // namespace
}  // namespace meshwork::tables_test
