#include "benchmarks/gpu_step/dlrm.h"

#include <algorithm>
#include <string>
#include <utility>

#include "benchmarks/gpu_step/training.h"

namespace meshwork {
namespace {

constexpr int64_t kMeasured = 13;

// ReLU behind each layer.
Value Perceptron(Graph& graph, const std::string& name, const Value& x, const std::vector<int64_t>& units) {
  const NameScope scope(graph, name);
  Value y = x;
  for (size_t i = 0; i < units.size(); ++i)
    y = Relu(Dense(graph, fmt::format("dense{}", i + 1), units[i], {.kernel_initializer = HeNormal()})(y));
  return y;
}

// features: [b,f,units] -> the products of all pairs of different features, [b,f·(f-1)/2].
Value ProductsOfPairs(const Value& features) {
  const int64_t f = features.shape()[1];
  std::vector<int32_t> pairs;
  for (int64_t i = 0; i < f; ++i)
    for (int64_t j = 0; j < i; ++j) pairs.push_back(static_cast<int32_t>(i * f + j));
  const Value products = Flatten(MatMul(features, features, /*transpose_a=*/false, /*transpose_b=*/true));
  return Gather(products, Constant(*features.graph(), Tensor::From<int32_t>({std::ssize(pairs)}, pairs)), 1);
}

// measured: [b,13], ids: [b,tables] -> logits: [b].
Value Dlrm(Graph& graph, const DlrmSizes& sizes, const Value& measured, const Value& ids) {
  const Value bottom = Perceptron(graph, "bottom", measured, {512, 256, sizes.units});
  std::vector<Value> features = {bottom};
  for (int64_t t = 0; t < sizes.tables; ++t)
    features.push_back(Embedding(graph, fmt::format("table{}", t), sizes.rows,
                                 sizes.units)(Squeeze(SliceDim(ids, 1, t, t + 1), 1)));
  const Value top =
      Perceptron(graph, "top", Concat({bottom, ProductsOfPairs(Stack(features, 1))}, 1), {512, 256});
  return Squeeze(Dense(graph, "click", 1)(top), 1);
}

Training TrainingOn(const GpuOptions& o, const std::string& mesh) {
  const DlrmSizes sizes = o.dlrm;
  const Optimizer optimizer = o.dlrm_optimizer == "sgd" ? Optimizer(Sgd({.learning_rate = 0.1}))
                                                        : Optimizer(Adagrad({.learning_rate = 0.01}));
  return {.name = fmt::format("dlrm/{}/{}", sizes.batch, mesh),
          .about = {{"model", "dlrm"},
                    {"batch", sizes.batch},
                    {"tables", sizes.tables},
                    {"rows", sizes.rows},
                    {"units", sizes.units},
                    {"optimizer", o.dlrm_optimizer},
                    {"precision", o.precision}},
          .precision = o.precision,
          .mesh = mesh,
          .build =
              [=](Graph& graph) {
                graph.SetLayouts({.layouts = {{"measured", {"batch", UNSHARDED}},
                                              {"ids", {"batch", UNSHARDED}},
                                              {"clicks", {"batch"}},
                                              {"*/table", {"model", UNSHARDED}}},
                                  .missing_axes = MissingAxes::kShardNothing});
                const Value measured = graph.Input("measured", F32, {sizes.batch, kMeasured});
                const Value ids = graph.Input("ids", I32, {sizes.batch, sizes.tables});
                const Value clicks = graph.Input("clicks", F32, {sizes.batch});
                const Value loss = BinaryCrossEntropyWithLogits(Dlrm(graph, sizes, measured, ids), clicks);
                optimizer.Minimize(loss);
                graph.Output("loss", loss);
              },
          .make_feeds =
              [=](Random& random) {
                return Feeds{{"measured", RandomReals(random, {sizes.batch, kMeasured})},
                             {"ids", RandomNumbers(random, {sizes.batch, sizes.tables}, sizes.rows)},
                             {"clicks", RandomNumbers(random, {sizes.batch}, 2).Cast(F32)}};
              }};
}

}  // namespace

std::vector<GpuWorkPlan> DlrmPlans(const GpuOptions& o) {
  std::vector<GpuWorkPlan> plans;
  for (const std::string& mesh : o.meshes)
    std::ranges::move(TrainingPlans(o, TrainingOn(o, mesh)), std::back_inserter(plans));
  return plans;
}

}  // namespace meshwork
