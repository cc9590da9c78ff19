#include "meshwork/ops/kernels/cuda/scalars.h"

#include <algorithm>
#include <span>
#include <variant>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

struct Scalar {
  std::string_view op, text;
};

// For bf16, if it differs from OpRow::scalar: exact enough for the bits of a bf16.
constexpr Scalar kRoughScalars[] = {
    {"div", "QuotientByUnit(a, b)"}, {"reciprocal", "QuotientByUnit(1.0f, x)"},
    {"sqrt", "SqrtByUnit(x)"},       {"rsqrt", "RsqrtByUnit(x)"},
    {"erfc", "RoughErfc(x)"},        {"sigmoid", "RoughSigmoid(x)"},
    {"silu", "RoughSilu(x)"},        {"gelu", "{tanh} ? RoughTanhGelu(x) : RoughGelu(x)"},
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

std::string_view Find(std::span<const Scalar> scalars, std::string_view op, std::string_view otherwise = {}) {
  const auto found =
      std::find_if(scalars.begin(), scalars.end(), [&](const Scalar& scalar) { return scalar.op == op; });
  return found == scalars.end() ? otherwise : found->text;
}

}  // namespace

bool HasScalar(const OpRow& row) { return row.name == "cast" || !row.scalar.empty(); }

std::string ScalarOf(const OpRow& row, const KernelSpec& spec) {
  const DType dtype = spec.operands[0].local.dtype;
  if (row.name == "cast") return CastText(dtype, spec.results[0].local.dtype);
  std::string text(dtype == BF16 ? Find(kRoughScalars, row.name, row.scalar) : row.scalar);
  for (const auto& [name, value] : spec.attrs.entries()) {
    const std::string place = "{" + name + "}";
    for (size_t at = text.find(place); at != std::string::npos; at = text.find(place))
      text.replace(at, place.size(), TextOfAttr(value));
  }
  return text;
}

std::optional<std::string> RoundedScalarOf(const OpRow& row, const KernelSpec& spec) {
  if (spec.results[0].local.dtype != BF16 || spec.operands.back().local.dtype != BF16) return std::nullopt;
  const std::string_view text = Find(kRoundedScalars, row.name);
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

}  // namespace meshwork::cuda
