// Steps of transformer layers with random layouts of their arguments, and the bytes that JAX sends for each.
//
//   for (const RandomPins& step : LoadRandomPins()) RunPasses(BuildStep(step), …)
//
// random_pins.py beside this file has drawn the steps and counted JAX's bytes; it also describes the entries
// of random_pins.json. Its loss_of builds the same step. The sizes are so chosen that no pin leaves a device
// with an empty or a short block.
//
// JAX runs some products on fewer devices than it could, which sends less and computes more. So two programs are
// also compared by the seconds that the assumed topology gives for bytes and products; latencies do not count.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/initializers.h"
#include "support/golden.h"

namespace meshwork {

struct RandomPins {
  int64_t seed = 0;
  std::string mesh;
  int64_t sequences = 0, tokens = 0, units = 0, hidden = 0, layers = 0;
  bool is_gated = false;
  int64_t classes = 0;            // 0: the loss is the mean squared error
  std::vector<std::string> pins;  // of the arguments in order, "x,_,_"
  int64_t jax_bytes = 0;          // on the wire, per device and step
  double jax_flops = 0;           // of products, per device and step
};

inline std::vector<RandomPins> LoadRandomPins() {
  std::vector<RandomPins> steps;
  for (const nlohmann::json& entry : nlohmann::json::parse(ReadGolden("random_pins/random_pins.json"))) {
    const nlohmann::json& sizes = entry.at("sizes");
    steps.push_back({.seed = entry.at("seed"),
                     .mesh = entry.at("mesh"),
                     .sequences = sizes.at(0),
                     .tokens = sizes.at(1),
                     .units = sizes.at(2),
                     .hidden = sizes.at(3),
                     .layers = sizes.at(4),
                     .is_gated = entry.at("gated"),
                     .classes = entry.at("classes"),
                     .pins = absl::StrSplit(entry.at("pins").get<std::string>(), ';'),
                     .jax_bytes = entry.at("jax"),
                     .jax_flops = entry.at("flops")});
  }
  return steps;
}

// Builds the step of some pins.
class RandomPinsBuilder {
 public:
  explicit RandomPinsBuilder(const RandomPins& step) : step_(step), graph_(Mesh::Parse(step.mesh).value()) {}

  Graph Build() && {
    const int64_t s = step_.sequences, t = step_.tokens;
    Value x = graph_.Input("x", F32, {s, t, step_.units}, NextPin());
    const Value target =
        graph_.Input("t", F32, {s, t, step_.classes == 0 ? step_.units : step_.classes}, NextPin());
    for (int64_t layer = 0; layer < step_.layers; ++layer) x = Layer(x, layer);
    Value loss;
    if (step_.classes == 0) {
      loss = ReduceMean(Square(x - target));
    } else {
      loss = SoftmaxCrossEntropy(MatMul(x, Weight("head", {step_.units, step_.classes})), target);
    }
    const std::vector<Variable> weights = graph_.variables();
    const std::vector<Value> gradients = Gradients(loss, weights);
    for (size_t i = 0; i < weights.size(); ++i) graph_.Update(weights[i], weights[i] - gradients[i] * 0.01);
    graph_.Output("loss", loss);
    return std::move(graph_);
  }

 private:
  static constexpr int64_t kHeads = 8;

  LayoutSpec NextPin() {
    return SpecOf(LayoutPin::Parse(graph_.mesh(), "{" + step_.pins.at(next_pin_++) + "}").value());
  }
  Value Weight(const std::string& name, const Shape& shape) {
    return graph_.Var(name, Zeros(shape), NextPin());
  }

  Value Layer(const Value& x, int64_t layer) {
    const int64_t units = step_.units, hidden = step_.hidden;
    auto weight = [&](std::string_view name, const Shape& shape) {
      return Weight(fmt::format("{}{}", name, layer), shape);
    };
    const Value a = RmsNorm(x, weight("g", {units}));
    auto by_heads = [&](std::string_view name) {
      const Value flat = MatMul(a, weight(name, {units, units}));
      return Reshape(flat, {step_.sequences, step_.tokens, kHeads, units / kHeads});
    };
    const Value q = by_heads("wq"), k = by_heads("wk"), v = by_heads("wv");
    const Value seen = Reshape(Attention(q, k, v, {.causal = true}), {step_.sequences, step_.tokens, units});
    const Value z = x + MatMul(seen, weight("wo", {units, units}));
    const Value b = RmsNorm(z, weight("G", {units}));
    Value h;
    if (step_.is_gated) {
      h = Silu(MatMul(b, weight("wg", {units, hidden})));
      h = h * MatMul(b, weight("wu", {units, hidden}));
    } else {
      h = Silu(MatMul(b, weight("wu", {units, hidden})));
    }
    return z + MatMul(h, weight("wd", {hidden, units}));
  }

  const RandomPins& step_;
  Graph graph_;
  size_t next_pin_ = 0;
};

// Operations of products and attention on one device. Causal attention counts half of the scores; in JAX all.
inline double ProductFlops(const Graph& local) {
  double flops = 0;
  for (const Node& node : local.nodes())
    if (node.row->is_product) flops += FlopsOf(local, node);
  return flops;
}
inline double AssumedSeconds(int64_t bytes, double flops) {
  return static_cast<double>(bytes) / Topology::kAssumedLink.bandwidth + flops / Topology::kAssumedFlops;
}

inline Graph BuildStep(const RandomPins& step) { return RandomPinsBuilder(step).Build(); }

}  // namespace meshwork
