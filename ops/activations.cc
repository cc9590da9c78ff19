// The family of activations. The functions are in ops/kernels/portable/activations.h; their gradients are 0 or 1 where
// the function has become flat or x.
#include <cmath>

#include "meshwork/base/status.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"

namespace meshwork {
namespace {

using portable::kSqrtHalf, portable::kTanhCube, portable::kTanhScale;

// ---- Gradients.

// x where functions of it still change; beyond, their gradients are at their limits, and no product of
// 0 and ∞ arises.
Value Near(const Value& x) { return Clip(x, -1000, 1000); }

// Computed from the result, so that the operand need not be kept.
Value ReluSlope(const Value& g, const Value& y) { return Select(Greater(y, 0.0), g, 0.0); }

// g where x > 0, else alpha exp(x) g.
Value EluSlope(const Value& g, const Value& x, double alpha) {
  return Select(Greater(x, 0.0), g, g * alpha * Exp(Minimum(x, 0.0)));
}

std::vector<Value> LeakyReluGrad(const GradView& v) {
  const Value& g = v.result_grads[0];
  return {Select(Greater(v.operands[0], 0.0), g, g * v.attrs.Get<double>("alpha"))};
}

std::vector<Value> EluGrad(const GradView& v) {
  return {EluSlope(v.result_grads[0], v.operands[0], v.attrs.Get<double>("alpha"))};
}

// With the gate s(x) the slope is s + x s'.
std::vector<Value> GeluGrad(const GradView& v) {
  const Value x = Clip(v.operands[0], -100, 100);  // its cube is finite
  if (!v.attrs.Get<bool>("tanh")) {
    const Value gate = 0.5 * Erfc(x * -kSqrtHalf);
    const Value bell = Exp(-0.5 * x * x) * (0.5 * kTanhScale);  // 1/sqrt(2π)
    return {v.result_grads[0] * (gate + x * bell)};
  }
  const Value gate = Sigmoid(2 * kTanhScale * (x + kTanhCube * x * x * x));
  const Value slope = 2 * kTanhScale * (1.0 + 3 * kTanhCube * x * x);
  return {v.result_grads[0] * (gate + x * gate * (1.0 - gate) * slope)};
}

// ---- Rows of attributes.

absl::StatusOr<std::vector<Type>> InferAlpha(const OpView& view) {
  const double alpha = view.attrs.Get<double>("alpha");
  if (!std::isfinite(alpha)) return InvalidArgument("alpha={} is not finite.", alpha);
  return InferBroadcast(Elements::kReal, view);
}
Rule AlphaRule(const OpView& view) {
  return view.attrs.Get<double>("alpha") >= 0 ? GrowingRule(view) : OpaqueRule(view);
}

Kernel LeakyReluCpu(const KernelSpec& spec) {
  return RealKernel(
      spec, [alpha = spec.attrs.Get<double>("alpha")](auto x) { return portable::LeakyRelu(x, alpha); });
}
Kernel EluCpu(const KernelSpec& spec) {
  return RealKernel(spec, [alpha = spec.attrs.Get<double>("alpha")](auto x) {
    return portable::Elu(x, static_cast<decltype(x)>(alpha));
  });
}
Kernel GeluCpu(const KernelSpec& spec) {
  if (spec.attrs.Get<bool>("tanh")) return RealKernel(spec, [](auto x) { return portable::TanhGelu(x); });
  return RealKernel(spec, [](auto x) { return portable::Gelu(x); });
}

OpRow AlphaRow(std::string_view name, std::string_view doc, double fallback,
               std::vector<Value> (*grad)(const GradView&), KernelFactory cpu, std::string_view scalar) {
  return {.name = name,
          .doc = doc,
          .attrs = {{"alpha", AttrKind::kFloat, fallback}},
          .infer = InferAlpha,
          .rule = AlphaRule,
          .grad = grad,
          .cpu = cpu,
          .scalar = scalar,
          .stack = StackBroadcast,
          .is_light = true,
          .in_place = {0},
          .samples = {"f32[4,6]", "f64[5]; alpha=0.5", "bf16[6]", "f32[5]; alpha=-0.5"},
          .sample_low = -2,
          .sample_high = 2};
}

// ---- Rows.

std::vector<OpRow> RectifierRows() {
  return {
      RealRow("relu", "max(x, 0); NaN stays", MESHWORK_OF_X(x < T(0) ? T(0) : x),
              [](const Value& g, const Value&, const Value& y) { return ReluSlope(g, y); },
              {.rule = GrowingRule}),
      RealRow("relu6", "min(max(x, 0), 6); NaN stays",
              MESHWORK_OF_X(x < T(0)   ? T(0)
                            : x > T(6) ? T(6)
                                       : x),
              [](const Value& g, const Value&, const Value& y) {
                return Select(And(Greater(y, 0.0), Less(y, 6.0)), g, 0.0);
              },
              {.rule = GrowingRule, .sample_low = -4, .sample_high = 12}),
      AlphaRow("leaky_relu", "x > 0 ? x : alpha x", 0.01, LeakyReluGrad, LeakyReluCpu,
               "LeakyRelu(x, {alpha})"),
      AlphaRow("elu", "x > 0 ? x : alpha (exp(x) - 1)", 1, EluGrad, EluCpu, "Elu(x, T({alpha}))"),
      RealRow("selu", "1.0507 elu(x) with alpha = 1.6733", MESHWORK_OF_X(Selu(x)),
              [](const Value& g, const Value& x, const Value&) {
                return EluSlope(g * portable::kSeluScale, x, portable::kSeluAlpha);
              },
              {.rule = GrowingRule, .sample_low = -2}),
  };
}

std::vector<OpRow> GateRows() {
  return {
      RealRow("sigmoid", "1 / (1 + exp(-x))", MESHWORK_OF_X(Sigmoid(x)),
              [](const Value& g, const Value&, const Value& y) { return g * y * (1.0 - y); },
              {.rule = GrowingRule, .sample_low = -2}),
      RealRow("softplus", "log(1 + exp(x))", MESHWORK_OF_X(Softplus(x)),
              [](const Value& g, const Value& x, const Value&) { return g * Sigmoid(x); },
              {.rule = GrowingRule, .sample_low = -2}),
      RealRow("silu", "x sigmoid(x)", MESHWORK_OF_X(Gated(x, Sigmoid(x))),
              [](const Value& g, const Value& x, const Value&) {
                const Value gate = Sigmoid(x);
                return g * gate * (1.0 + Near(x) * (1.0 - gate));
              },
              {.sample_low = -2}),
      {.name = "gelu",
       .doc = "x times the share of a standard normal below x; tanh: the approximation by tanh",
       .attrs = {{"tanh", AttrKind::kBool, false}},
       .infer = InferSame<Elements::kReal>,
       .rule = OpaqueRule,
       .grad = GeluGrad,
       .cpu = GeluCpu,
       .scalar = "{tanh} ? TanhGelu(x) : Gelu(x)",
       .stack = StackBroadcast,
       .is_light = true,
       .in_place = {0},
       .samples = {"f32[4,6]", "f64[5]; tanh=true", "f64[5]", "bf16[6]", "bf16[6]; tanh=true"},
       .sample_low = -2,
       .sample_high = 2},
      RealRow("mish", "x tanh(softplus(x))", MESHWORK_OF_X(Gated(x, Tanh(Softplus(x)))),
              [](const Value& g, const Value& x, const Value&) {
                const Value gate = Tanh(Softplus(x));
                return g * (gate + Near(x) * Sigmoid(x) * (1.0 - gate * gate));
              },
              {.sample_low = -2}),
      RealRow("hard_sigmoid", "min(max(x + 3, 0), 6) / 6", MESHWORK_OF_X(HardSigmoid(x)),
              [](const Value& g, const Value&, const Value& y) {
                return Select(And(Greater(y, 0.0), Less(y, 1.0)), g / 6.0, 0.0);
              },
              {.rule = GrowingRule, .sample_low = -6, .sample_high = 6}),
      RealRow("hard_silu", "x hard_sigmoid(x)", MESHWORK_OF_X(Gated(x, HardSigmoid(x))),
              [](const Value& g, const Value& x, const Value&) {
                return g * Select(Greater(x, 3.0), 1.0, Select(Less(x, -3.0), 0.0, Near(x) / 3.0 + 0.5));
              },
              {.sample_low = -6, .sample_high = 6}),
  };
}

}  // namespace

std::span<const OpRow> ActivationOps() {
  static const auto* rows = [] {
    auto* all = new std::vector<OpRow>(RectifierRows());
    for (OpRow& row : GateRows()) all->push_back(std::move(row));
    return all;
  }();
  return *rows;
}

Value Relu(const Operand& x) { return AddOp("relu", {x}); }
Value Relu6(const Operand& x) { return AddOp("relu6", {x}); }
Value LeakyRelu(const Operand& x, double alpha) { return AddOp("leaky_relu", {x}, {{"alpha", alpha}}); }
Value Elu(const Operand& x, double alpha) { return AddOp("elu", {x}, {{"alpha", alpha}}); }
Value Selu(const Operand& x) { return AddOp("selu", {x}); }
Value Sigmoid(const Operand& x) { return AddOp("sigmoid", {x}); }
Value Softplus(const Operand& x) { return AddOp("softplus", {x}); }
Value Silu(const Operand& x) { return AddOp("silu", {x}); }
Value Gelu(const Operand& x, GeluForm form) {
  return AddOp("gelu", {x}, {{"tanh", form == GeluForm::kTanh}});
}
Value Mish(const Operand& x) { return AddOp("mish", {x}); }
Value HardSigmoid(const Operand& x) { return AddOp("hard_sigmoid", {x}); }
Value HardSilu(const Operand& x) { return AddOp("hard_silu", {x}); }

}  // namespace meshwork
