#include "train/optimizers.h"

#include "base/status.h"
#include "ops/gradients.h"
#include "ops/ops.h"
#include "train/initializers.h"

namespace meshwork {
namespace {

// The float variables that `loss` depends on, in the order of declaration.
std::vector<Value> TrainableOf(const Value& loss) {
  Graph& graph = *loss.graph();
  std::vector<bool> reached(graph.values().size(), false);
  reached[loss.id()] = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    bool any = false;
    for (ValueId id : node.results) any |= reached[id];
    if (!any) continue;
    for (ValueId id : node.operands) reached[id] = true;
  }
  std::vector<Value> trainable;
  for (const Variable& variable : graph.variables())
    if (reached[variable.id()] && IsFloat(variable.dtype())) trainable.push_back(variable);
  return trainable;
}

struct WeightGradient {
  Variable weight;
  Value gradient;
};

// Weights and gradients; empty after a mistake, which is recorded.
std::vector<WeightGradient> GradientsOf(std::string_view optimizer, const Value& loss, CallSite loc) {
  if (!loss.valid()) return {};
  Graph& graph = *loss.graph();
  const std::vector<Value> weights = TrainableOf(loss);
  if (weights.empty()) {
    graph.RecordError(
        fmt::format("{}: the loss depends on no f32 or f64 variable; there is nothing to minimize.",
                    graph.Describe(optimizer, loc)));
    return {};
  }
  const std::vector<Value> gradients = Gradients(loss, weights, loc);
  std::vector<WeightGradient> pairs;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!gradients[i].valid()) return {};
    pairs.push_back({Variable(&graph, weights[i].id()), gradients[i]});
  }
  return pairs;
}

}  // namespace

void Sgd::Minimize(const Value& loss, CallSite loc) const {
  for (const auto& [weight, gradient] : GradientsOf("Sgd", loss, loc)) {
    const LocationScope scope(*loss.graph(), loc);
    loss.graph()->Update(weight, weight - gradient * options_.learning_rate, loc);
  }
}

void Adam::Minimize(const Value& loss, CallSite loc) const {
  const std::vector<WeightGradient> pairs = GradientsOf("Adam", loss, loc);
  if (pairs.empty()) return;
  Graph& graph = *loss.graph();
  const LocationScope scope(graph, loc);
  const Variable steps = graph.Var("adam/step", Zeros({}, I64), {}, loc);
  const Value step = steps + 1.0;
  graph.Update(steps, step, loc);
  for (const auto& [weight, gradient] : pairs) {
    const ValueInfo info = graph.value(weight.id());
    auto moment = [&](std::string_view kind) {
      return graph.Var(fmt::format("adam/{}/{}", kind, info.name), Zeros(info.type.shape, info.type.dtype),
                       SpecOf(*info.layout), loc);
    };
    const Variable m = moment("m"), v = moment("v");
    const AdamResult next = AdamUpdate(weight, gradient, m, v, step, options_.learning_rate, options_.beta1,
                                       options_.beta2, options_.epsilon, loc);
    graph.Update(weight, next.weight, loc);
    graph.Update(m, next.first_moment, loc);
    graph.Update(v, next.second_moment, loc);
  }
}

}  // namespace meshwork
