// Special functions of reals: powers and logarithms of other bases, the gamma family, the inverse of erf;
// logaddexp and hypot of two reals; and ops that count the bits of whole numbers.
#include <cmath>
#include <numbers>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"

namespace meshwork {
namespace {

constexpr double kLn2 = std::numbers::ln2, kLn10 = std::numbers::ln10;

// ---- The gamma family.

constexpr int64_t kMostOrder = 100;

absl::StatusOr<std::vector<Type>> InferPolygamma(const OpView& view) {
  const int64_t order = view.attrs.Get<int64_t>("order");
  if (order < 0 || order > kMostOrder)
    return InvalidArgument("order={}; it goes from 0 to {}.", order, kMostOrder);
  return InferSame<Elements::kReal>(view);
}

std::vector<Value> PolygammaGrad(const GradView& view) {
  return {Mul(view.result_grads[0], Polygamma(view.operands[0], view.attrs.Get<int64_t>("order") + 1))};
}

Kernel PolygammaCpu(const KernelSpec& spec) {
  const int order = static_cast<int>(spec.attrs.Get<int64_t>("order"));
  const auto function = portable::MakePolygamma<kMostOrder + 2>(order, std::tgamma(order + 1.0));
  return RealKernel(
      spec, [function](auto x) { return static_cast<decltype(x)>(portable::PolygammaOf(function, x)); });
}

// ---- Of two reals.

// In floats by the C library; LogAddExp of ops/kernels/cuda/device/functions.cuh is by CUDA's functions.
template <typename T>
T LogAddExpOf(T a, T b) {
  if (a == b) return a + static_cast<T>(kLn2);  // of infinities, too
  const T difference = a - b;
  return (difference > 0 ? a : b) + std::log1p(std::exp(-std::fabs(difference)));
}

std::vector<Value> LogAddExpGrad(const GradView& view) {
  const Value &a = view.operands[0], &b = view.operands[1], &g = view.result_grads[0];
  const Value tie = Equal(a, b);
  return Fit(view, {g * Select(tie, 0.5, Sigmoid(a - b)), g * Select(tie, 0.5, Sigmoid(b - a))});
}

// 0 at (0, 0).
std::vector<Value> HypotGrad(const GradView& view) {
  const Value &y = view.results[0], &g = view.result_grads[0];
  const Value by = Select(Equal(y, 0.0), 1.0, y);
  return Fit(view, {g * view.operands[0] / by, g * view.operands[1] / by});
}

Rule GrowingInEachRule(const OpView& view) {
  const DType dtype = view.results[0].dtype;
  return ElementwiseRule(view, Grows(Which::kOne, dtype, dtype));
}

template <typename F>
OpRow RealPair(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&),
               std::vector<Value> (*grad)(const GradView&), Scalar<F> scalar) {
  return {.name = name,
          .doc = doc,
          .num_operands = 2,
          .infer = InferSame<Elements::kReal>,
          .rule = rule,
          .grad = grad,
          .cpu = ForPairs<Elements::kReal>(scalar.f),
          .scalar = scalar.text,
          .stack = StackBroadcast,
          .is_light = true,
          .in_place = {0},
          .samples = {"f32[4,6], f32[4,6]", "f64[4,6], f64[6]", "f32[4,1], f32[6]", "bf16[5], bf16[]"}};
}

// ---- Bits.

template <typename F>
OpRow BitCount(std::string_view name, std::string_view doc, Scalar<F> scalar) {
  return {.name = name,
          .doc = doc,
          .infer = InferSame<Elements::kWhole>,
          .rule = OpaqueRule,
          .cpu = ForWholes(scalar.f),
          .scalar = scalar.text,
          .stack = StackBroadcast,
          .is_light = true,
          .in_place = {0},
          .samples = {"i32[4,6]", "i64[5]"}};
}

}  // namespace

std::span<const OpRow> SpecialOps() {
  static const auto* rows = new std::vector<OpRow>{
      RealRow("exp2", "2 to the x", MESHWORK_OF_X(Exp2(x)),
              [](const Value& g, const Value&, const Value& y) { return g * y * kLn2; },
              {.rule = GrowingRule}),
      RealRow("log2", "logarithm to base 2", MESHWORK_OF_X(Log2(x)),
              [](const Value& g, const Value& x, const Value&) { return g / (x * kLn2); },
              {.rule = GrowingUpwardsRule, .sample_low = 0.25}),
      RealRow("log10", "logarithm to base 10", MESHWORK_OF_X(Log10(x)),
              [](const Value& g, const Value& x, const Value&) { return g / (x * kLn10); },
              {.rule = GrowingUpwardsRule, .sample_low = 0.25}),
      RealRow("lgamma", "log of the size of Γ(x)", MESHWORK_OF_X(LogGamma(x)),
              [](const Value& g, const Value& x, const Value&) { return g * Polygamma(x, 0); },
              {.sample_low = 0.25, .sample_high = 4}),
      {.name = "polygamma",
       .doc = "the derivative of order + 1 of log Γ; 0, -1, … give ∞ where order is odd, else NaN",
       .attrs = {{"order", AttrKind::kInt, int64_t{0}}},
       .infer = InferPolygamma,
       .rule = OpaqueRule,
       .grad = PolygammaGrad,
       .cpu = PolygammaCpu,
       .scalar = "T(PolygammaOf<{order}>(x))",
       .stack = StackBroadcast,
       .is_light = true,
       .in_place = {0},
       .samples = {"f32[4,6]", "f64[5]; order=1", "bf16[6]; order=2"},
       .sample_low = 0.25,
       .sample_high = 4},
      RealRow("erfinv", "the number whose erf is x", MESHWORK_OF_X(static_cast<T>(ErfInverse(x))),
              [](const Value& g, const Value&, const Value& y) {
                return g * (0.5 / std::numbers::inv_sqrtpi) * Exp(y * y);
              },
              {.sample_low = -0.9, .sample_high = 0.9}),
      RealPair("logaddexp", "log(exp(a) + exp(b)), for all sizes of a and b", GrowingInEachRule,
               LogAddExpGrad, Scalar{[](auto a, auto b) { return LogAddExpOf(a, b); }, "LogAddExp(a, b)"}),
      RealPair("hypot", "sqrt(a² + b²), without overflow on the way", OpaqueRule, HypotGrad,
               MESHWORK_OF_AB(Hypot(a, b))),
      BitCount("popcount", "how many bits of x are set", MESHWORK_OF_X(SetBits(x))),
      BitCount("count_leading_zeros", "how many bits of x are 0 before the first that is set",
               MESHWORK_OF_X(LeadingZeros(x))),
  };
  return *rows;
}

Value Exp2(const Operand& x) { return AddOp("exp2", {x}); }
Value Log2(const Operand& x) { return AddOp("log2", {x}); }
Value Log10(const Operand& x) { return AddOp("log10", {x}); }
Value LogGamma(const Operand& x) { return AddOp("lgamma", {x}); }
Value Digamma(const Operand& x) { return Polygamma(x, 0); }
Value Polygamma(const Operand& x, int64_t order) { return AddOp("polygamma", {x}, {{"order", order}}); }
Value ErfInv(const Operand& x) { return AddOp("erfinv", {x}); }
Value LogAddExp(const Operand& a, const Operand& b) { return AddOp("logaddexp", {a, b}); }
Value Hypot(const Operand& a, const Operand& b) { return AddOp("hypot", {a, b}); }
Value Popcount(const Operand& x) { return AddOp("popcount", {x}); }
Value CountLeadingZeros(const Operand& x) { return AddOp("count_leading_zeros", {x}); }

}  // namespace meshwork
