#include "meshwork/train/optim/loss_scaler.h"

#include "meshwork/base/first_failure.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/initializers.h"

namespace meshwork {

absl::Status CheckLossScale(const LossScale& scale) {
  absl::Status status =
      FirstFailure({CheckPositive("initial", scale.initial), CheckPositive("backoff", scale.backoff),
                    CheckFinite("growth", scale.growth)});
  if (scale.growth_steps < 0)
    status.Update(
        InvalidArgument("growth_steps={} is negative; 0 keeps the scale from growing.", scale.growth_steps));
  if (scale.growth <= 1)
    status.Update(InvalidArgument("growth={} is not above 1; give for example 2.", scale.growth));
  if (scale.backoff > 1)
    status.Update(InvalidArgument("backoff={} is above 1; give for example 0.5.", scale.backoff));
  return Annotate(status, "loss_scale: ");
}

LossScaler::LossScaler(Graph& graph, const LossScale& options, const std::string& prefix, CallSite loc)
    : graph_(graph), options_(options), loc_(loc) {
  constexpr VarOptions kState{.trainable = false};
  const bool grows = options.growth_steps > 0;
  if (grows) good_steps_ = graph.Var(prefix + "/good_steps", Zeros({}, I64), {}, kState, loc);
  if (grows || options.backoff < 1)
    scale_ = variable_ = graph.Var(prefix + "/loss_scale", Filled(options.initial, {}), {}, kState, loc);
  else scale_ = Constant(graph, options.initial, {F32, {}}, loc);
}

Value LossScaler::Scaled(const Value& loss) const {
  const LocationScope scope(graph_, loc_);
  return Mul(loss, InDType(scale_, loss.dtype()));
}

void LossScaler::Unscale(std::vector<VariableGradient>& gradients) const {
  const LocationScope scope(graph_, loc_);
  const Value inverse = Div(1.0, scale_);
  for (VariableGradient& gradient : gradients)
    gradient.gradient = Mul(gradient.gradient, InDType(inverse, gradient.gradient.dtype()));
}

Value LossScaler::Finish(const std::vector<VariableGradient>& gradients) {
  const LocationScope scope(graph_, loc_);
  Value is_good;
  for (const VariableGradient& gradient : gradients) {
    const Value is_finite = ReduceAll(IsFinite(gradient.gradient));
    is_good = is_good.valid() ? And(is_good, is_finite) : is_finite;
  }
  if (!variable_.valid()) return is_good;
  Value next = scale_;
  if (good_steps_.valid()) {
    const Value good = Add(good_steps_, 1.0), grown = Mul(scale_, options_.growth);
    const Value is_due = GreaterEqual(good, static_cast<double>(options_.growth_steps));
    graph_.Update(good_steps_, Select(And(is_good, Not(is_due)), good, 0.0), loc_);
    next = Select(And(is_due, IsFinite(grown)), grown, scale_);
  }
  graph_.Update(variable_, Select(is_good, next, Mul(scale_, options_.backoff)), loc_);
  return is_good;
}

}  // namespace meshwork
