// The formulas of the optimizers; minimize.cc applies them.
#include "meshwork/train/optim/optimizers.h"

#include "meshwork/base/first_failure.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"
#include "meshwork/ops/update_rows.h"

namespace meshwork {
namespace {

using Operands = UpdateRule::Operands;
using Values = std::vector<Value>;

// A rule with what all options have, and weight decay where they have it. The options have no common base, because
// designated initializers cannot name its members.
template <typename Options>
UpdateRule RuleOf(std::string name, const Options& o, absl::Status options) {
  UpdateRule rule = {.name = std::move(name),
                     .options = std::move(options),
                     .learning_rate = o.learning_rate,
                     .clip_norm = o.clip_norm,
                     .groups = o.groups,
                     .scope = o.name,
                     .loss_scale = o.loss_scale};
  if constexpr (requires { o.weight_decay; }) rule.weight_decay = o.weight_decay;
  return rule;
}

// The gradient with weight decay in it.
Value Decayed(const Operands& x) {
  return x.weight_decay == 0 ? x.gradient : x.gradient + x.weight * x.weight_decay;
}

UpdateRule SgdRule(const SgdOptions& o) {
  UpdateRule rule = RuleOf("Sgd", o, absl::OkStatus());
  rule.formula = [](const Operands& x) -> Values { return {x.weight - Decayed(x) * x.learning_rate}; };
  return rule;
}

// `nesterov`: the weight moves by the gradient plus momentum times the new m.
UpdateRule MomentumRule(std::string name, const MomentumOptions& o, bool nesterov) {
  UpdateRule rule = RuleOf(std::move(name), o, CheckDecay("momentum", o.momentum));
  rule.slots = {{"m"}};
  rule.formula = [mu = o.momentum, nesterov](const Operands& x) -> Values {
    const Value g = Decayed(x);
    const Value m = x.state[0] * mu + g;
    return {x.weight - (nesterov ? g + m * mu : m) * x.learning_rate, m};
  };
  return rule;
}

UpdateRule AdagradRule(const AdagradOptions& o) {
  UpdateRule rule = RuleOf("Adagrad", o,
                           FirstFailure({CheckNotNegative("initial_accumulator", o.initial_accumulator),
                                         CheckNotNegative("epsilon", o.epsilon)}));
  rule.slots = {{"a", o.initial_accumulator}};
  rule.formula = [epsilon = o.epsilon](const Operands& x) -> Values {
    const AdagradResult next = AdagradUpdate(x.weight, x.gradient, x.state[0], x.learning_rate, epsilon);
    return {next.weight, next.accumulator};
  };
  return rule;
}

std::vector<UpdateRule::Slot> RmsPropSlots(const RmsPropOptions& o) {
  std::vector<UpdateRule::Slot> slots = {{"v"}};
  if (o.centered) slots.push_back({"a"});
  if (o.momentum != 0) slots.push_back({"m"});
  return slots;
}

Values RmsPropFormula(const RmsPropOptions& o, const Operands& x) {
  const Value& g = x.gradient;
  Values state = {x.state[0] * o.rho + Square(g) * (1 - o.rho)};
  Value variance = state[0];
  if (o.centered) {
    state.push_back(x.state[1] * o.rho + g * (1 - o.rho));
    variance = Maximum(variance - Square(state[1]), 0.0);
  }
  Value move = g * x.learning_rate / Sqrt(variance + o.epsilon);
  if (o.momentum != 0) {
    move = x.state.back() * o.momentum + move;
    state.push_back(move);
  }
  state.insert(state.begin(), x.weight - move);
  return state;
}

UpdateRule RmsPropRule(const RmsPropOptions& o) {
  UpdateRule rule = RuleOf("RmsProp", o,
                           FirstFailure({CheckDecay("rho", o.rho), CheckDecay("momentum", o.momentum),
                                         CheckNotNegative("epsilon", o.epsilon)}));
  rule.slots = RmsPropSlots(o);
  rule.formula = [o](const Operands& x) { return RmsPropFormula(o, x); };
  return rule;
}

// The common part of Adam, AdamW and Lamb.
template <typename Options>
UpdateRule MomentsRule(std::string name, const Options& o) {
  UpdateRule rule = RuleOf(std::move(name), o,
                           FirstFailure({CheckDecay("beta1", o.beta1), CheckDecay("beta2", o.beta2),
                                         CheckNotNegative("epsilon", o.epsilon)}));
  rule.counts_steps = true;
  rule.slots = {{"m"}, {"v"}};
  return rule;
}

template <typename Options>
UpdateRule AdamRule(std::string name, const Options& o) {
  UpdateRule rule = MomentsRule(std::move(name), o);
  rule.formula = [beta1 = o.beta1, beta2 = o.beta2, epsilon = o.epsilon,
                  lazy = o.lazy](const Operands& x) -> Values {
    const AdamResult next =
        lazy && x.is_table
            ? LazyAdamUpdate({x.weight, x.gradient, x.state[0], x.state[1], x.step, x.learning_rate},
                             {beta1, beta2, epsilon, x.weight_decay})
            : AdamUpdate(x.weight, x.gradient, x.state[0], x.state[1], x.step, x.learning_rate, beta1, beta2,
                         epsilon, x.weight_decay);
    return {next.weight, next.first_moment, next.second_moment};
  };
  return rule;
}

// 1 - beta^step in f64, whose digits it needs while the step is small, as `dtype`.
Value Correction(const Value& step, double beta, DType dtype) {
  return Cast(1.0 - Pow(beta, Cast(step, F64)), dtype);
}

Values LambFormula(const LambOptions& o, const Operands& x) {
  const DType dtype = x.weight.dtype();
  const Value m = x.state[0] * o.beta1 + x.gradient * (1 - o.beta1);
  const Value v = x.state[1] * o.beta2 + Square(x.gradient) * (1 - o.beta2);
  const Value root = Sqrt(v / Correction(x.step, o.beta2, dtype)) + o.epsilon;
  const Value move = m / Correction(x.step, o.beta1, dtype) / root + x.weight * x.weight_decay;
  const Value length = Norm(x.weight), of_move = Norm(move);
  const Value is_zero = Or(Equal(length, 0.0), Equal(of_move, 0.0));
  const Value trust = Select(is_zero, 1.0, length / Select(is_zero, 1.0, of_move));
  return {x.weight - move * (trust * x.learning_rate), m, v};
}

UpdateRule LambRule(const LambOptions& o) {
  UpdateRule rule = MomentsRule("Lamb", o);
  if (o.lazy)
    rule.options.Update(InvalidArgument(
        "lazy=true: the length of an update needs all rows; AdamW and Adam have a lazy form."));
  rule.formula = [o](const Operands& x) { return LambFormula(o, x); };
  return rule;
}

}  // namespace

Sgd::Sgd(const SgdOptions& o) : Optimizer(SgdRule(o)) {}
Momentum::Momentum(const MomentumOptions& o) : Optimizer(MomentumRule("Momentum", o, /*nesterov=*/false)) {}
Nesterov::Nesterov(const NesterovOptions& o) : Optimizer(MomentumRule("Nesterov", o, /*nesterov=*/true)) {}
Adagrad::Adagrad(const AdagradOptions& o) : Optimizer(AdagradRule(o)) {}
RmsProp::RmsProp(const RmsPropOptions& o) : Optimizer(RmsPropRule(o)) {}
Adam::Adam(const AdamOptions& o) : Optimizer(AdamRule("Adam", o)) {}
AdamW::AdamW(const AdamWOptions& o) : Optimizer(AdamRule("AdamW", o)) {}
Lamb::Lamb(const LambOptions& o) : Optimizer(LambRule(o)) {}

}  // namespace meshwork
