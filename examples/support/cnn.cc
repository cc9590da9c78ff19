#include "examples/support/cnn.h"

namespace meshwork {
namespace {

void AddCnn(Graph& graph, int64_t batch_size, const Precision& precision, const Optimizer* optimizer) {
  auto axis_or_whole = [&](const char* name) {
    return graph.mesh().FindAxes(name).ok() ? DimSpec(name) : DimSpec(UNSHARDED);
  };
  const DType dtype = precision.variables;
  graph.SetPrecision(precision);
  const DimSpec batch = axis_or_whole("batch"), height = axis_or_whole("height");

  Value images = graph.Input("images", dtype, {batch_size, 28, 28, 1}, {batch, height, UNSHARDED, UNSHARDED});
  Value labels = graph.Input("labels", I32, {batch_size}, {batch});

  Conv2D conv1(graph, "conv1", 1, 32, {3, 3});
  Dense dense1(graph, "dense1", 13 * 13 * 32, 64);
  Dense dense2(graph, "dense2", 64, 10);

  Value pooled = MaxPool(Relu(conv1(images)), {2, 2});
  Value logits = dense2(Relu(dense1(Flatten(pooled))));
  Value loss = SparseSoftmaxCrossEntropy(logits, labels);
  if (optimizer != nullptr) optimizer->Minimize(loss);

  graph.Output("loss", loss);
  graph.Output("accuracy", Accuracy(logits, labels, dtype));
}

}  // namespace

void BuildCnn(Graph& graph, int64_t batch_size, const Precision& precision, const Optimizer& optimizer) {
  AddCnn(graph, batch_size, precision, &optimizer);
}
void BuildCnn(Graph& graph, int64_t batch_size, const Precision& precision) {
  AddCnn(graph, batch_size, precision, nullptr);
}

std::vector<std::string> CnnWeights() {
  std::vector<std::string> names;
  for (const char* layer : {"conv1", "dense1", "dense2"})
    for (const char* part : {"kernel", "bias"}) names.push_back(fmt::format("{}/{}", layer, part));
  return names;
}

}  // namespace meshwork
