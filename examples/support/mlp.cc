#include "examples/support/mlp.h"

namespace meshwork {
void BuildMlp(Graph& graph, int64_t batch_size, const Precision& precision, const Optimizer& optimizer) {
  auto axis_or_whole = [&](const char* name) {
    return graph.mesh().FindAxes(name).ok() ? DimSpec(name) : DimSpec(UNSHARDED);
  };
  const DType dtype = precision.variables;
  graph.SetPrecision(precision);
  const DimSpec batch = axis_or_whole("batch"), model = axis_or_whole("model");

  Value images = graph.Input("images", dtype, {batch_size, 784}, {batch, UNSHARDED});
  Value labels = graph.Input("labels", I32, {batch_size}, {batch});

  const DenseOptions columns = {.kernel_layout = {UNSHARDED, model}, .bias_layout = {model}};
  Dense dense1(graph, "dense1", 784, 700, columns);
  Dense dense2(graph, "dense2", 700, 500, {.kernel_layout = {model, UNSHARDED}});
  Dense dense3(graph, "dense3", 500, 10);

  Value logits = dense3(Relu(dense2(Relu(dense1(images)))));
  Value loss = SparseSoftmaxCrossEntropy(logits, labels);
  optimizer.Minimize(loss);

  graph.Output("loss", loss);
  graph.Output("accuracy", Accuracy(logits, labels, dtype));
}

std::vector<std::string> MlpWeights() {
  std::vector<std::string> names;
  for (int layer = 1; layer <= 3; ++layer)
    for (const char* part : {"kernel", "bias"}) names.push_back(fmt::format("dense{}/{}", layer, part));
  return names;
}

}  // namespace meshwork
