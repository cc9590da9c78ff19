#include "examples/support/mlp.h"

#include "base/status.h"

namespace meshwork {
namespace {

struct Choice {
  std::string_view name;
  Optimizer (*make)(double learning_rate);
};

template <typename T>
Optimizer Make(double learning_rate) {
  return T({.learning_rate = learning_rate});
}

constexpr Choice kOptimizers[] = {{"sgd", Make<Sgd>},           {"momentum", Make<Momentum>},
                                  {"nesterov", Make<Nesterov>}, {"adagrad", Make<Adagrad>},
                                  {"rmsprop", Make<RmsProp>},   {"adam", Make<Adam>},
                                  {"adamw", Make<AdamW>}};

}  // namespace

std::vector<std::string> OptimizerNames() {
  std::vector<std::string> names;
  for (const Choice& choice : kOptimizers) names.emplace_back(choice.name);
  return names;
}

Optimizer MakeOptimizer(std::string_view name, double learning_rate) {
  const Choice* chosen = std::begin(kOptimizers);
  while (chosen != std::end(kOptimizers) && chosen->name != name) ++chosen;
  MESHWORK_CHECK(chosen != std::end(kOptimizers), "optimizer {}", name);
  return chosen->make(learning_rate);
}

void BuildMlp(Graph& graph, int64_t batch_size, DType dtype, const Optimizer& optimizer) {
  auto axis_or_whole = [&](const char* name) {
    return graph.mesh().FindAxes(name).ok() ? DimSpec(name) : DimSpec(UNSHARDED);
  };
  const DimSpec batch = axis_or_whole("batch"), model = axis_or_whole("model");

  Value images = graph.Input("images", dtype, {batch_size, 784}, {batch, UNSHARDED});
  Value labels = graph.Input("labels", I32, {batch_size}, {batch});

  Dense dense1(graph, "dense1", 784, 700,
               {.kernel_layout = {UNSHARDED, model}, .bias_layout = {model}, .dtype = dtype});
  Dense dense2(graph, "dense2", 700, 500, {.kernel_layout = {model, UNSHARDED}, .dtype = dtype});
  Dense dense3(graph, "dense3", 500, 10, {.dtype = dtype});

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
