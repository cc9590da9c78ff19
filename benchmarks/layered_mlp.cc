#include "benchmarks/layered_mlp.h"

#include "fmt/format.h"

namespace meshwork {

std::string SquareMesh(int log2_devices) {
  const int model = log2_devices / 2;
  return fmt::format("batch={},model={}", int64_t{1} << (log2_devices - model), int64_t{1} << model);
}

void BuildLayeredMlp(Graph& graph, const LayeredMlpOptions& options) {
  const Mesh& mesh = graph.mesh();
  const int64_t examples = options.local_examples * mesh.axis(0).size;
  const int64_t units = options.local_units * mesh.axis(1).size;
  Value h = graph.Input("x", F32, {examples, units}, {"batch", UNSHARDED});
  const Value labels = graph.Input("labels", I32, {examples}, {"batch"});
  for (int layer = 0; layer < options.layers; ++layer) {
    const bool by_columns = layer % 2 == 0;
    const LayoutSpec kernel = by_columns ? LayoutSpec{UNSHARDED, "model"} : LayoutSpec{"model", UNSHARDED};
    const LayoutSpec bias = {by_columns ? DimSpec("model") : DimSpec(UNSHARDED)};
    const Dense dense(graph, fmt::format("layer{}", layer), units, units,
                      {.kernel_layout = kernel, .bias_layout = bias});
    h = dense(h);
    if (layer + 1 < options.layers) h = Relu(h);
  }
  const Value loss = SparseSoftmaxCrossEntropy(h, labels);
  if (options.optimizer == "sgd") Sgd({.learning_rate = 1e-3}).Minimize(loss);
  else Adam({.learning_rate = 1e-3}).Minimize(loss);
  graph.Output("loss", loss);
}

}  // namespace meshwork
