// The forms of optimizer steps. Numbers of a step are computed in f64, elements of 16 bits in f32, as the kernels do.
#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

// The learning rate: f64[]. `o`: the operand that it is multiplied by, where there is one.
HloValue LearningRate(const FormView& v, size_t o) {
  const HloValue rate = v.text.Constant(v.attrs().Get<double>("learning_rate"), {F64, {}});
  return v.operands.size() > o ? v.text.Multiply(rate, v.operands[o]) : rate;
}

// 1 - x: f64[].
HloValue OneWithout(HloText& text, const HloValue& x) { return text.Subtract(text.Constant(1, x.type), x); }

// What the moments lack after so many steps: 1 - beta^step.
HloValue MissingWeight(const FormView& v, std::string_view beta) {
  const HloValue step = v.text.Convert(v.operands[4], F64);
  const HloValue base = v.text.Constant(v.attrs().Get<double>(beta), step.type);
  return OneWithout(v.text, v.text.Op("stablehlo.power", {base, step}, step.type));
}

// A number of the step, for each element that is computed like `x`.
HloValue ForEachElement(HloText& text, const HloValue& number, const HloValue& x) {
  return text.Broadcast(text.Convert(number, x.dtype()), x.shape());
}

// The new values in the dtype of the old ones; those of elements whose gradient is 0 stay, if `is_lazy`.
HloValues UpdatedValues(const FormView& v, HloValues news, const HloValues& olds, bool is_lazy) {
  const HloValue gradient = v.Wide(1);
  for (size_t r = 0; r < news.size(); ++r) {
    news[r] = v.text.Convert(news[r], olds[r].dtype());
    if (!is_lazy) continue;
    const HloValue stays = v.text.Compare("EQ", gradient, v.text.Constant(0, gradient.type));
    news[r] = v.text.Select(stays, olds[r], news[r]);
  }
  return news;
}

absl::StatusOr<HloValues> AdamForm(const FormView& v) {
  HloText& text = v.text;
  const auto attr = [&](std::string_view name) { return v.attrs().Get<double>(name); };
  const HloValue w = v.Wide(0), g = v.Wide(1);
  const HloValue lr = LearningRate(v, 5);
  const HloValue rate = text.Divide(lr, MissingWeight(v, "beta1"));
  const HloValue root = text.Op("stablehlo.sqrt", {MissingWeight(v, "beta2")}, lr.type);
  const HloValue keep = OneWithout(text, text.Multiply(lr, attr("weight_decay")));

  const double b1 = attr("beta1"), b2 = attr("beta2");
  const HloValue m = text.Add(text.Multiply(v.Wide(2), b1), text.Multiply(g, 1 - b1));
  const HloValue s = text.Add(text.Multiply(v.Wide(3), b2), text.Multiply(text.Multiply(g, 1 - b2), g));
  const HloValue inverse = text.Divide(text.Constant(1, root.type), root);
  const HloValue deviation =
      text.Multiply(text.Op("stablehlo.sqrt", {s}, s.type), ForEachElement(text, inverse, s));
  const HloValue moved =
      text.Divide(text.Multiply(ForEachElement(text, rate, m), m), text.Add(deviation, attr("epsilon")));
  const HloValue next = text.Subtract(text.Multiply(ForEachElement(text, keep, w), w), moved);
  return UpdatedValues(v, {next, m, s}, {v.operands[0], v.operands[2], v.operands[3]},
                       v.attrs().Get<bool>("lazy"));
}

absl::StatusOr<HloValues> AdagradForm(const FormView& v) {
  HloText& text = v.text;
  const HloValue g = v.Wide(1);
  const HloValue a = text.Add(v.Wide(2), text.Multiply(g, g));
  const HloValue divisor = text.Add(text.Op("stablehlo.sqrt", {a}, a.type), v.attrs().Get<double>("epsilon"));
  const HloValue moved = text.Divide(text.Multiply(g, ForEachElement(text, LearningRate(v, 3), g)), divisor);
  return UpdatedValues(v, {text.Subtract(v.Wide(0), moved), a}, {v.operands[0], v.operands[2]},
                       /*is_lazy=*/true);
}

constexpr NamedForm kOptimizerForms[] = {{"adam_update", AdamForm}, {"adagrad_update", AdagradForm}};

}  // namespace

std::span<const NamedForm> OptimizerForms() { return kOptimizerForms; }

}  // namespace meshwork::stablehlo
