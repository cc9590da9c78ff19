// Shared by the elementwise families (arithmetic, compare, unary, activations, cast): one result element per
// index, operands broadcast right-aligned.
//
// A row of one real operand consists of its function, its gradient and how partial operands pass:
//
//   RealRow("exp", "e to the x", MESHWORK_OF_X(Exp(x)),
//           [](const Value& g, const Value&, const Value& y) { return g * y; }, {.rule = GrowingRule})
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "meshwork/ir/builder.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/portable/activations.h"
#include "meshwork/ops/kernels/portable/arithmetic.h"
#include "meshwork/ops/kernels/portable/special.h"
#include "meshwork/ops/kernels/stack.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

// Inference.

// The elements that a row takes: numbers are whole or real, bits are bools or whole numbers.
enum class Elements { kAny, kNumber, kReal, kBits, kWhole };

absl::Status CheckElements(Elements elements, const Type& type);
// Operands of one dtype, broadcast; the result has that dtype.
absl::StatusOr<std::vector<Type>> InferBroadcast(Elements elements, const OpView& view);

template <Elements elements>
absl::StatusOr<std::vector<Type>> InferSame(const OpView& view) {
  return InferBroadcast(elements, view);
}
// Like InferSame, but the result is bool.
template <Elements elements>
absl::StatusOr<std::vector<Type>> InferBool(const OpView& view) {
  MESHWORK_ASSIGN_OR_RETURN(std::vector<Type> types, InferBroadcast(elements, view));
  types[0].dtype = BOOL;
  return types;
}

// ---- Rules.

inline constexpr Which kSecond = Which::kOneButFirst;  // of two operands

// A function that grows (falls) with one of its operands, whatever the others are, in the order of the
// operand's and the result's dtypes: for bools, a maximum is an `or`, a minimum an `and`. NaN must stay NaN:
// the maximum of a NaN and a number is NaN.
Passes Grows(Which which, DType from, DType to);
Passes Falls(Which which, DType from, DType to);
// f(ab) = f(a)f(b): products pass.
inline Passes Multiplicative() { return {{Which::kAll, ReduceOp::kProd, ReduceOp::kProd}}; }

// "ab,b->ab": one letter per result dim; an operand's missing or stretched dims have none.
Rule ElementwiseRule(const OpView& view, Passes passes);
Rule OpaqueRule(const OpView& view);   // nothing passes
Rule GrowingRule(const OpView& view);  // Increasing()
Rule MovingRule(const OpView& view);   // MovesElements()
// For a function that grows on all reals and is NaN for NaN, maxima and minima may wait. For a function that
// is defined only from some number on (log, sqrt), minima may wait, because the parts of a minimum are not
// below it; the parts of a maximum may be, and would become NaN.
Rule GrowingUpwardsRule(const OpView& view);

// ---- Gradients.

// Each gradient summed over the dims along which its operand was broadcast.
std::vector<Value> Fit(const GradView& view, std::vector<Value> grads);

// The gradient of a function y = f(x) of one operand, by F(g, x, y): g, the gradient of y, times f'(x).
template <typename F>
std::vector<Value> UnaryGrad(const GradView& view) {
  return {F{}(view.result_grads[0], view.operands[0], view.results[0])};
}

// ---- Functions of elements, written once: MESHWORK_OF_X(Sqrt(x)) is a function for the loops of the CPU, and the same
// expression as text for kernels of GPUs (OpRow::scalar). It reads x (a and b), of type T, and calls functions of
// ops/kernels/portable. A function of the same name in an unnamed namespace hides the portable one.

template <typename F>
struct Scalar {
  F f;
  std::string_view text;
};
template <typename F>
Scalar(F, const char*) -> Scalar<F>;

#define MESHWORK_OF_X(...) MESHWORK_SCALAR((auto x), decltype(x), #__VA_ARGS__, __VA_ARGS__)
#define MESHWORK_OF_AB(...) MESHWORK_SCALAR((auto a, auto b), decltype(a), #__VA_ARGS__, __VA_ARGS__)
#define MESHWORK_SCALAR(parameters, Type, text, ...)                            \
  ::meshwork::Scalar {                                                          \
    [] parameters {                                                             \
      using namespace ::meshwork::portable; /* NOLINT: only in this function */ \
      using T [[maybe_unused]] = Type;                                          \
      return __VA_ARGS__;                                                       \
    },                                                                          \
        text                                                                    \
  }

// ---- Kernels. f computes in Compute<T>; the functions For… make the factory for an f without attributes.

template <typename F>
Kernel RealKernel(const KernelSpec& spec, F f) {
  return Dispatch(spec.operands[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (kIsReal<T>) return UnaryKernel<T, T>(spec, f);
    else return {};
  });
}

template <typename F>
Kernel NumberKernel(const KernelSpec& spec, F f) {
  return Dispatch(spec.operands[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return {};
    else return UnaryKernel<T, T>(spec, f);
  });
}

template <typename F>
KernelFactory ForReals(F) {
  return [](const KernelSpec& spec) { return RealKernel(spec, F{}); };
}
template <typename F>
KernelFactory ForNumbers(F) {
  return [](const KernelSpec& spec) { return NumberKernel(spec, F{}); };
}

template <typename F>
KernelFactory ForWholes(F) {
  return [](const KernelSpec& spec) {
    return Dispatch(spec.operands[0].local.dtype, [&](auto zero) -> Kernel {
      using T = decltype(zero);
      if constexpr (!kIsReal<T> && !std::is_same_v<T, bool>) return UnaryKernel<T, T>(spec, F{});
      else return {};
    });
  };
}

// For two operands of one dtype, which `elements` allows.
template <Elements elements, typename F>
KernelFactory ForPairs(F) {
  return [](const KernelSpec& spec) {
    return Dispatch(spec.operands[0].local.dtype, [&](auto zero) -> Kernel {
      using T = decltype(zero);
      constexpr bool kTakes =
          elements == Elements::kAny || (elements == Elements::kNumber && !std::is_same_v<T, bool>) ||
          (elements == Elements::kReal && kIsReal<T>) || (elements == Elements::kBits && !kIsReal<T>) ||
          (elements == Elements::kWhole && !kIsReal<T> && !std::is_same_v<T, bool>);
      if constexpr (kTakes) return BinaryKernel<T, T>(spec, F{});
      else return {};
    });
  };
}

// ---- Rows.

struct RealRowOptions {
  Rule (*rule)(const OpView& view) = OpaqueRule;
  double sample_low = -1, sample_high = 2;
};

// A function of one real operand. `grad`: see UnaryGrad; nullptr where the gradient is zero.
template <typename F, typename Grad>
OpRow RealRow(std::string_view name, std::string_view doc, Scalar<F> scalar, Grad,
              RealRowOptions options = {}) {
  OpRow row{.name = name,
            .doc = doc,
            .infer = InferSame<Elements::kReal>,
            .rule = options.rule,
            .cpu = ForReals(scalar.f),
            .scalar = scalar.text,
            .stack = StackBroadcast,
            .is_light = true,
            .in_place = {0},
            .samples = {"f32[4,6]", "f64[5]", "bf16[6]"},
            .sample_low = options.sample_low,
            .sample_high = options.sample_high};
  if constexpr (std::is_null_pointer_v<Grad>) row.grad = ZeroGradient;
  else row.grad = UnaryGrad<Grad>;
  return row;
}

}  // namespace meshwork
