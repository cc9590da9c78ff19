#include "meshwork/train/optimizers.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/initializers.h"

namespace meshwork {
namespace {

// The float variables that `loss` depends on, by whatever ops, in the order of declaration.
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

std::string InSmallLetters(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// The first of `checks` that failed.
absl::Status FirstError(std::initializer_list<absl::Status> checks) {
  for (const absl::Status& check : checks) MESHWORK_RETURN_IF_ERROR(check);
  return absl::OkStatus();
}

}  // namespace

void Optimizer::Minimize(const Value& loss, CallSite loc) const {
  if (!loss.valid()) return;
  Graph& graph = *loss.graph();
  auto fail = [&](std::string_view message) {
    graph.RecordError(fmt::format("{}: {}", graph.Describe(rule_.name, loc), message));
  };
  absl::Status options = rule_.options;
  if (rule_.clip_norm.has_value()) options.Update(CheckPositive("clip_norm", *rule_.clip_norm));
  if (!options.ok()) return fail(MessageOf(options));
  const std::vector<Value> candidates = TrainableOf(loss);
  if (candidates.empty()) return fail("the loss depends on no float variable; there is nothing to minimize.");
  const std::optional<std::vector<Value>> reached = ReachedGradients(loss, candidates, loc);
  if (!reached.has_value()) return;
  // What no gradient reaches is frozen: it does not decay, and has no state.
  std::vector<Value> weights, gradients;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!(*reached)[i].valid()) continue;
    weights.push_back(candidates[i]);
    gradients.push_back((*reached)[i]);
  }
  if (weights.empty())
    return fail(
        "no gradient of the loss reaches a variable: all that it depends on is behind StopGradient, or an op "
        "without a gradient.");
  for (const VariableUpdate& update : graph.updates()) {
    const ValueId updated = graph.arguments()[update.argument].value;
    if (std::none_of(weights.begin(), weights.end(), [&](const Value& w) { return w.id() == updated; }))
      continue;
    const std::string before = update.location.ToString();
    return fail(
        fmt::format("\"{}\" is already updated{}; a step writes a variable once, and Minimize writes all "
                    "that a gradient of its "
                    "loss reaches.",
                    graph.value(updated).name, before.empty() ? "" : fmt::format(" ({})", before)));
  }
  if (rule_.clip_norm.has_value()) gradients = ClipByGlobalNorm(gradients, *rule_.clip_norm, loc);

  const LocationScope scope(graph, loc);
  const std::string prefix = InSmallLetters(rule_.name);
  Value step;
  if (rule_.counts_steps) {
    const Variable steps = graph.Var(prefix + "/step", Zeros({}, I64), {}, loc);
    step = steps + 1.0;
    graph.Update(steps, step, loc);
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const ValueInfo weight = graph.value(weights[i].id());
    std::vector<Value> state;
    for (const UpdateRule::Slot& slot : rule_.slots)
      state.push_back(graph.Var(fmt::format("{}/{}/{}", prefix, slot.name, weight.name),
                                Filled(slot.initial, weight.type.shape, weight.type.dtype),
                                SpecOf(*weight.layout), loc));
    const std::vector<Value> next = rule_.formula({weights[i], gradients[i], state, step});
    if (next.size() != 1 + state.size())
      return fail(
          fmt::format("its formula gives {}; it must give {}, the new weight and the new state of each slot.",
                      Count(static_cast<int64_t>(next.size()), "value"), 1 + state.size()));
    graph.Update(Variable(&graph, weights[i].id()), next[0], loc);
    for (size_t s = 0; s < state.size(); ++s) graph.Update(Variable(&graph, state[s].id()), next[s + 1], loc);
  }
}

// ---- The optimizers.

using Operands = UpdateRule::Operands;
using Values = std::vector<Value>;

Sgd::Sgd(Options o)
    : Optimizer({.name = "Sgd",
                 .options = CheckNotNegative("learning_rate", o.learning_rate),
                 .clip_norm = o.clip_norm,
                 .formula = [o](const Operands& x) -> Values {
                   return {x.weight - x.gradient * o.learning_rate};
                 }}) {}

Momentum::Momentum(Options o)
    : Optimizer({.name = "Momentum",
                 .options = FirstError({CheckNotNegative("learning_rate", o.learning_rate),
                                        CheckDecay("momentum", o.momentum)}),
                 .clip_norm = o.clip_norm,
                 .slots = {{"m"}},
                 .formula = [o](const Operands& x) -> Values {
                   const Value m = x.state[0] * o.momentum + x.gradient;
                   return {x.weight - m * o.learning_rate, m};
                 }}) {}

Nesterov::Nesterov(Options o)
    : Optimizer({.name = "Nesterov",
                 .options = FirstError({CheckNotNegative("learning_rate", o.learning_rate),
                                        CheckDecay("momentum", o.momentum)}),
                 .clip_norm = o.clip_norm,
                 .slots = {{"m"}},
                 .formula = [o](const Operands& x) -> Values {
                   const Value m = x.state[0] * o.momentum + x.gradient;
                   return {x.weight - (x.gradient + m * o.momentum) * o.learning_rate, m};
                 }}) {}

Adagrad::Adagrad(Options o)
    : Optimizer({.name = "Adagrad",
                 .options = FirstError({CheckNotNegative("learning_rate", o.learning_rate),
                                        CheckNotNegative("initial_accumulator", o.initial_accumulator),
                                        CheckNotNegative("epsilon", o.epsilon)}),
                 .clip_norm = o.clip_norm,
                 .slots = {{"a", o.initial_accumulator}},
                 .formula = [o](const Operands& x) -> Values {
                   const Value a = x.state[0] + Square(x.gradient);
                   return {x.weight - x.gradient * o.learning_rate / (Sqrt(a) + o.epsilon), a};
                 }}) {}

namespace {

std::vector<UpdateRule::Slot> RmsPropSlots(const RmsProp::Options& o) {
  std::vector<UpdateRule::Slot> slots = {{"v"}};
  if (o.centered) slots.push_back({"a"});
  if (o.momentum != 0) slots.push_back({"m"});
  return slots;
}

Values RmsPropFormula(const RmsProp::Options& o, const Operands& x) {
  const Value& g = x.gradient;
  Values state = {x.state[0] * o.rho + Square(g) * (1 - o.rho)};
  Value variance = state[0];
  if (o.centered) {
    state.push_back(x.state[1] * o.rho + g * (1 - o.rho));
    variance = Maximum(variance - Square(state[1]), 0.0);
  }
  Value move = g * o.learning_rate / Sqrt(variance + o.epsilon);
  if (o.momentum != 0) {
    move = x.state.back() * o.momentum + move;
    state.push_back(move);
  }
  state.insert(state.begin(), x.weight - move);
  return state;
}

// Adam, or AdamW where weight_decay is not 0.
UpdateRule AdamRule(std::string name, const Adam::Options& o, double weight_decay) {
  return {
      .name = std::move(name),
      .options = FirstError({CheckNotNegative("learning_rate", o.learning_rate), CheckDecay("beta1", o.beta1),
                             CheckDecay("beta2", o.beta2), CheckNotNegative("epsilon", o.epsilon),
                             CheckNotNegative("weight_decay", weight_decay)}),
      .clip_norm = o.clip_norm,
      .counts_steps = true,
      .slots = {{"m"}, {"v"}},
      .formula = [o, weight_decay](const Operands& x) -> Values {
        const AdamResult next = AdamUpdate(x.weight, x.gradient, x.state[0], x.state[1], x.step,
                                           o.learning_rate, o.beta1, o.beta2, o.epsilon, weight_decay);
        return {next.weight, next.first_moment, next.second_moment};
      }};
}

// 1 - beta^step in f64, whose digits it needs while the step is small, as `dtype`.
Value Correction(const Value& step, double beta, DType dtype) {
  return Cast(1.0 - Pow(beta, Cast(step, F64)), dtype);
}

Values LambFormula(const Lamb::Options& o, const Operands& x) {
  const DType dtype = x.weight.dtype();
  const Value m = x.state[0] * o.beta1 + x.gradient * (1 - o.beta1);
  const Value v = x.state[1] * o.beta2 + Square(x.gradient) * (1 - o.beta2);
  const Value root = Sqrt(v / Correction(x.step, o.beta2, dtype)) + o.epsilon;
  const Value move = m / Correction(x.step, o.beta1, dtype) / root + x.weight * o.weight_decay;
  std::vector<int64_t> all(static_cast<size_t>(move.valid() ? move.rank() : 0));
  std::iota(all.begin(), all.end(), 0);
  const Value length = Norm(x.weight, all), of_move = Norm(move, all);
  const Value is_zero = Or(Equal(length, 0.0), Equal(of_move, 0.0));
  const Value trust = Select(is_zero, 1.0, length / Select(is_zero, 1.0, of_move));
  return {x.weight - move * (trust * o.learning_rate), m, v};
}

}  // namespace

RmsProp::RmsProp(Options o)
    : Optimizer({.name = "RmsProp",
                 .options =
                     FirstError({CheckNotNegative("learning_rate", o.learning_rate), CheckDecay("rho", o.rho),
                                 CheckDecay("momentum", o.momentum), CheckNotNegative("epsilon", o.epsilon)}),
                 .clip_norm = o.clip_norm,
                 .slots = RmsPropSlots(o),
                 .formula = [o](const Operands& x) { return RmsPropFormula(o, x); }}) {}

Adam::Adam(Options o) : Optimizer(AdamRule("Adam", o, 0)) {}

AdamW::AdamW(Options o)
    : Optimizer(AdamRule("AdamW",
                         {.learning_rate = o.learning_rate,
                          .beta1 = o.beta1,
                          .beta2 = o.beta2,
                          .epsilon = o.epsilon,
                          .clip_norm = o.clip_norm},
                         o.weight_decay)) {}

Lamb::Lamb(Options o)
    : Optimizer({.name = "Lamb",
                 .options = FirstError({CheckNotNegative("learning_rate", o.learning_rate),
                                        CheckDecay("beta1", o.beta1), CheckDecay("beta2", o.beta2),
                                        CheckNotNegative("epsilon", o.epsilon),
                                        CheckNotNegative("weight_decay", o.weight_decay)}),
                 .clip_norm = o.clip_norm,
                 .counts_steps = true,
                 .slots = {{"m"}, {"v"}},
                 .formula = [o](const Operands& x) { return LambFormula(o, x); }}) {}

}  // namespace meshwork
