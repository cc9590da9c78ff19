#include "benchmarks/layered_mlp.h"

#include <algorithm>

#include "fmt/format.h"

namespace meshwork {

std::string SquareMesh(int log2_devices) {
  const int model = log2_devices / 2;
  return fmt::format("batch={},model={}", int64_t{1} << (log2_devices - model), int64_t{1} << model);
}

namespace {

DenseOptions OptionsOf(int layer, const LayeredMlpOptions& options) {
  const DimSpec batch = "batch", model = "model", both = {"batch", "model"};
  const bool by_columns = layer % 2 == 0;
  switch (options.weights) {
    case WeightLayout::kByModel: break;
    case WeightLayout::kByBatchAndModel:
      return {.kernel_layout = by_columns ? LayoutSpec{batch, model} : LayoutSpec{model, batch},
              .bias_layout = {by_columns ? DimSpec{"model", "batch"} : batch},
              .gather = options.gather};
    case WeightLayout::kByRows:
      return {.kernel_layout = {both, UNSHARDED}, .bias_layout = {both}, .gather = options.gather};
    case WeightLayout::kByRowsInHost:
      return {.kernel_layout = {model, UNSHARDED}, .bias_layout = {model}, .gather = options.gather};
  }
  return {.kernel_layout = by_columns ? LayoutSpec{UNSHARDED, model} : LayoutSpec{model, UNSHARDED},
          .bias_layout = {by_columns ? model : DimSpec(UNSHARDED)}};
}

}  // namespace

void BuildLayeredMlp(Graph& graph, const LayeredMlpOptions& options) {
  const Mesh& mesh = graph.mesh();
  const bool by_rows =
      options.weights == WeightLayout::kByRows || options.weights == WeightLayout::kByRowsInHost;
  const DimSpec examples_by = by_rows ? DimSpec{"batch", "model"} : DimSpec("batch");
  const int64_t examples = options.local_examples * (by_rows ? mesh.num_devices() : mesh.axis(0).size);
  int64_t units = options.local_units * mesh.axis(1).size;
  if (options.weights == WeightLayout::kByRows) units = std::max(units, mesh.num_devices());
  Value h = graph.Input("x", F32, {examples, units}, {examples_by, UNSHARDED});
  const Value labels = graph.Input("labels", I32, {examples}, {examples_by});
  for (int layer = 0; layer < options.layers; ++layer) {
    const Dense dense(graph, fmt::format("layer{}", layer), units, units, OptionsOf(layer, options));
    h = dense(h);
    if (layer + 1 < options.layers) h = Relu(h);
  }
  const Value loss = SparseSoftmaxCrossEntropy(h, labels);
  if (options.optimizer == "sgd") Sgd({.learning_rate = 1e-3}).Minimize(loss);
  else Adam({.learning_rate = 1e-3}).Minimize(loss);
  graph.Output("loss", loss);
}

}  // namespace meshwork
