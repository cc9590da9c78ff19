#include "benchmarks/layered_transformer.h"

#include <cmath>
#include <string>

#include "fmt/format.h"

namespace meshwork {
namespace {

struct Sizes {
  int64_t sequences, tokens, heads, units;
};

// w: variable `name`, [inputs,units].
Value Weight(Graph& graph, const std::string& name, int64_t inputs, int64_t units, const LayoutSpec& layout) {
  return graph.Var(name, GlorotUniform({inputs, units}), layout);
}

Value Attention(Graph& graph, const Value& x, const std::string& name, const Sizes& n) {
  auto by_heads = [&](const std::string& which) {
    const Value flat = MatMul(x, Weight(graph, name + "/" + which, n.units, n.units, {UNSHARDED, "model"}));
    return Transpose(Reshape(flat, {n.sequences, n.tokens, n.heads, n.units / n.heads}), {0, 2, 1, 3});
  };
  const Value q = by_heads("q"), k = by_heads("k"), v = by_heads("v");
  const double scale = 1 / std::sqrt(static_cast<double>(n.units / n.heads));
  const Value shares = Softmax(MatMul(q, k, false, true) * scale);
  const Value merged = Reshape(Transpose(MatMul(shares, v), {0, 2, 1, 3}), {n.sequences, n.tokens, n.units});
  return MatMul(merged, Weight(graph, name + "/out", n.units, n.units, {"model", UNSHARDED}));
}

Value TwoLayers(Graph& graph, const Value& x, const std::string& name, int64_t units) {
  const Value h = Gelu(MatMul(x, Weight(graph, name + "/in", units, 4 * units, {UNSHARDED, "model"})));
  return MatMul(h, Weight(graph, name + "/out", 4 * units, units, {"model", UNSHARDED}));
}

}  // namespace

void BuildLayeredTransformer(Graph& graph, const LayeredTransformerOptions& options) {
  const Mesh& mesh = graph.mesh();
  const int64_t batch = mesh.axis(0).size, model = mesh.axis(1).size;
  const int64_t heads = options.local_heads * model;
  const Sizes n = {.sequences = options.local_sequences * batch,
                   .tokens = options.local_tokens * model,
                   .heads = heads,
                   .units = heads * options.head_units};
  const Shape shape = {n.sequences, n.tokens, n.units};
  const LayoutSpec by_tokens = {"batch", "model", UNSHARDED};
  Value x = graph.Input("x", F32, shape, by_tokens);
  const Value target = graph.Input("target", F32, shape, by_tokens);
  for (int layer = 0; layer < options.layers; ++layer) {
    const std::string name = fmt::format("block{}", layer);
    const LayerNormalization first(graph, name + "/norm1", n.units), second(graph, name + "/norm2", n.units);
    x = WithLayout(x + Attention(graph, first(x), name + "/attention", n), by_tokens);
    x = WithLayout(x + TwoLayers(graph, second(x), name + "/mlp", n.units), by_tokens);
  }
  const Value loss = MeanSquaredError(x, target);
  Adam({.learning_rate = 1e-3}).Minimize(loss);
  graph.Output("loss", loss);
}

}  // namespace meshwork
