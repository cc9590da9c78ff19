#include "meshwork/ops/kernels/cuda/scalars.h"

#include <algorithm>
#include <variant>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

struct Scalar {
  std::string_view op, text;
  std::string_view rough = {};  // for bf16, if it differs: exact enough for the bits of a bf16
};

// In the text, {name} is the attribute of that name.
constexpr Scalar kScalars[] = {
    // Arithmetic.
    {"add", "Sum(a, b)"},
    {"sub", "Difference(a, b)"},
    {"mul", "Product(a, b)"},
    {"div", "Quotient(a, b)", "QuotientByUnit(a, b)"},
    {"remainder", "Remainder(a, b)"},
    {"pow", "Power(a, b)"},
    {"maximum", "Larger(a, b)"},
    {"minimum", "Smaller(a, b)"},
    {"squared_difference", "Product(Difference(a, b), Difference(a, b))"},
    {"atan2", "Atan2(a, b)"},
    {"neg", "Negated(x)"},
    {"abs", "Absolute(x)"},
    {"sign", "x > T(0) ? T(1) : x < T(0) ? T(-1) : x"},
    {"square", "Product(x, x)"},
    {"reciprocal", "T(1) / x", "QuotientByUnit(1.0f, x)"},
    {"clip", "Clipped(x, Bound<T>({low}), Bound<T>({high}))"},
    // Functions of one real.
    {"exp", "Exp(x)"},
    {"exp2", "Exp2(x)"},
    {"expm1", "Expm1(x)"},
    {"log", "Log(x)"},
    {"log2", "Log2(x)"},
    {"log10", "Log10(x)"},
    {"log1p", "Log1p(x)"},
    {"sqrt", "Sqrt(x)", "SqrtByUnit(x)"},
    {"rsqrt", "T(1) / Sqrt(x)", "RsqrtByUnit(x)"},
    {"cbrt", "Cbrt(x)"},
    {"erf", "Erf(x)"},
    {"erfc", "Erfc(x)", "RoughErfc(x)"},
    {"erfinv", "(T)ErfInverse(x)"},
    {"polygamma", "(T)Polygamma<{order}>(x)"},
    {"lgamma", "LogGamma(x)"},
    {"sin", "Sin(x)"},
    {"cos", "Cos(x)"},
    {"tan", "Tan(x)"},
    {"asin", "Asin(x)"},
    {"acos", "Acos(x)"},
    {"atan", "Atan(x)"},
    {"sinh", "Sinh(x)"},
    {"cosh", "Cosh(x)"},
    {"tanh", "Tanh(x)"},
    {"asinh", "Asinh(x)"},
    {"acosh", "Acosh(x)"},
    {"atanh", "Atanh(x)"},
    {"floor", "Floor(x)"},
    {"ceil", "Ceil(x)"},
    {"round", "Nearest(x)"},
    {"trunc", "Trunc(x)"},
    {"logaddexp", "LogAddExp(a, b)"},
    {"hypot", "Hypot(a, b)"},
    {"popcount", "SetBits(x)"},
    {"count_leading_zeros", "LeadingZeros(x)"},
    // Activations.
    {"relu", "x < T(0) ? T(0) : x"},
    {"relu6", "x < T(0) ? T(0) : x > T(6) ? T(6) : x"},
    {"leaky_relu", "!(x < T(0)) ? x : {alpha} == 0.0 ? T(0) : T({alpha}) * x"},
    {"elu", "Elu(x, T({alpha}))"},
    {"selu", "T(1.0507009873554804934) * Elu(x, T(1.6732632423543772848))"},
    {"sigmoid", "Sigmoid(x)", "RoughSigmoid(x)"},
    {"softplus", "Softplus(x)"},
    {"silu", "Gated(x, Sigmoid(x))", "RoughSilu(x)"},
    {"gelu", "{tanh} ? TanhGelu(x) : Gelu(x)", "{tanh} ? RoughTanhGelu(x) : RoughGelu(x)"},
    {"mish", "Gated(x, Tanh(Softplus(x)))"},
    {"hard_sigmoid", "HardSigmoid(x)"},
    {"hard_silu", "Gated(x, HardSigmoid(x))"},
    // Comparisons and bits.
    {"equal", "a == b"},
    {"not_equal", "a != b"},
    {"less", "a < b"},
    {"less_equal", "a <= b"},
    {"greater", "a > b"},
    {"greater_equal", "a >= b"},
    {"is_finite", "x - x == T(0)"},
    {"is_inf", "x == x && x - x != T(0)"},
    {"is_nan", "x != x"},
    {"and", "(T)(a & b)"},
    {"or", "(T)(a | b)"},
    {"xor", "(T)(a ^ b)"},
    {"not", "(T)(T(-1) == T(1) ? !x : ~x)"},
    {"shift_left", "ShiftedLeft(a, b)"},
    {"shift_right_arithmetic", "ShiftedRight(a, b)"},
    {"shift_right_logical", "ShiftedRightUnsigned(a, b)"},
    {"select", "a ? b : c"},
};

// For bf16 operands: expressions whose values are bf16 already, because they are one of the operands or the
// function rounds.
constexpr Scalar kRoundedScalars[] = {
    {"add", "RoundedSum(a, b)"},     {"sub", "RoundedDifference(a, b)"},
    {"mul", "RoundedProduct(a, b)"}, {"square", "RoundedProduct(x, x)"},
    {"neg", "Negated(x)"},           {"abs", "Absolute(x)"},
    {"maximum", "Larger(a, b)"},     {"minimum", "Smaller(a, b)"},
    {"relu", "x < T(0) ? T(0) : x"}, {"select", "a ? b : c"},
    {"broadcast_to", "x"},
};

// The conversion of ops/kernels/convert.h, up to the rounding to a result of 16 bits.
std::string CastText(DType from, DType to) {
  if (to == BOOL) return "x != T(0)";
  if (to == BF16 || to == F16) return "ToOdd(x)";
  if (IsReal(from) && !IsReal(to)) return fmt::format("Clamped<{}>(x)", ComputeName(to));
  return fmt::format("({})x", ComputeName(to));
}

std::string TextOfAttr(const AttrValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return Real(*number);
  if (const auto* number = std::get_if<int64_t>(&value)) return Whole(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return "";
}

const Scalar* FindScalar(const OpRow& row) {
  const auto* const found = std::find_if(std::begin(kScalars), std::end(kScalars),
                                         [&](const Scalar& s) { return s.op == row.name; });
  return found == std::end(kScalars) ? nullptr : found;
}

}  // namespace

bool HasScalar(const OpRow& row) { return row.name == "cast" || FindScalar(row) != nullptr; }

std::optional<std::string> ScalarOf(const OpRow& row, const KernelSpec& spec) {
  if (row.name == "cast") return CastText(spec.operands[0].local.dtype, spec.results[0].local.dtype);
  const Scalar* const scalar = FindScalar(row);
  if (scalar == nullptr) return std::nullopt;
  const bool is_rough = spec.operands[0].local.dtype == BF16 && !scalar->rough.empty();
  std::string text(is_rough ? scalar->rough : scalar->text);
  for (const auto& [name, value] : spec.attrs.entries()) {
    const std::string place = "{" + name + "}";
    for (size_t at = text.find(place); at != std::string::npos; at = text.find(place))
      text.replace(at, place.size(), TextOfAttr(value));
  }
  return text;
}

std::optional<std::string> RoundedScalarOf(const OpRow& row, const KernelSpec& spec) {
  if (spec.results[0].local.dtype != BF16 || spec.operands.back().local.dtype != BF16) return std::nullopt;
  for (const Scalar& scalar : kRoundedScalars)
    if (scalar.op == row.name) return std::string(scalar.text);
  return std::nullopt;
}

}  // namespace meshwork::cuda
