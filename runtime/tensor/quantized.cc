#include "meshwork/runtime/tensor/quantized.h"

#include <algorithm>
#include <cmath>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr float kMostOf8Bits = 127, kMostOf4Bits = 15;

// What one over d is in the reference: 0 for a block of equal numbers. So it is here where it would not be finite; the scale is
// rounded to 0 then.
float OneOver(float d) {
  const float one_over = d == 0 ? 0 : 1 / d;
  return std::isfinite(one_over) ? one_over : 0;
}

// x: [32] -> q: [32]; returns the scale.
float QuantizeTo8Bits(const float* x, int8_t* q) {
  float most = 0;
  for (int64_t i = 0; i < kBlockNumbers; ++i) most = std::max(most, std::abs(x[i]));
  const float d = most / kMostOf8Bits, per_d = OneOver(d);
  for (int64_t i = 0; i < kBlockNumbers; ++i) q[i] = static_cast<int8_t>(std::round(x[i] * per_d));
  return d;
}

struct ScaleAndZero {
  float scale, zero;
};

// x: [32] -> q: [16], two numbers in a byte.
ScaleAndZero QuantizeTo4Bits(const float* x, uint8_t* q) {
  const auto ends = std::minmax_element(x, x + kBlockNumbers);
  const float least = *ends.first, d = (*ends.second - least) / kMostOf4Bits, per_d = OneOver(d);
  const auto whole = [&](float number) {
    return static_cast<uint8_t>(std::min(kMostOf4Bits, std::floor((number - least) * per_d + 0.5f)));
  };
  for (int64_t i = 0; i < kBlockNumbers / 2; ++i)
    q[i] = static_cast<uint8_t>(whole(x[i]) | whole(x[i + kBlockNumbers / 2]) << 4);
  return {d, least};
}

absl::Status CheckCanQuantize(const Tensor& matrix, const QuantizeOptions& options) {
  MESHWORK_RETURN_IF_ERROR(matrix.status());
  if (options.bits != 8 && options.bits != 4)
    return InvalidArgument("QuantizeMatrix: bits={}; give 8 or 4.", options.bits);
  if (!IsReal(matrix.dtype()))
    return InvalidArgument("QuantizeMatrix: takes real numbers, got {}; Cast it.", matrix.type().ToString());
  if (matrix.shape().empty() || matrix.shape().back() % kBlockNumbers != 0)
    return InvalidArgument(
        "QuantizeMatrix: got {}; rows are cut into blocks of {}, so its last dim must be a "
        "multiple of that: pad it.",
        matrix.type().ToString(), kBlockNumbers);
  return absl::OkStatus();
}

}  // namespace

QuantizedTypes QuantizedTypesOf(const Shape& matrix, int bits) {
  Shape blocks = matrix;
  blocks.back() /= kBlockNumbers;
  Shape q = blocks;
  q.push_back(bits == 8 ? kBlockNumbers : kBlockNumbers / 2);
  return {{bits == 8 ? I8 : U8, q}, {F16, blocks}};
}

absl::StatusOr<QuantizedMatrix> QuantizeMatrix(const Tensor& matrix, const QuantizeOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckCanQuantize(matrix, options));
  const Tensor numbers = matrix.Cast(F32);
  const QuantizedTypes types = QuantizedTypesOf(matrix.shape(), options.bits);
  QuantizedMatrix result{Tensor(types.q), Tensor(types.scale), {}};
  if (options.bits == 4) result.zero = Tensor(types.scale);
  const auto scales = result.scale.mutable_values<Float16>();
  for (size_t b = 0; b < scales.size(); ++b) {
    const float* const x = numbers.values<float>().data() + b * kBlockNumbers;
    if (!std::all_of(x, x + kBlockNumbers, [](float number) { return std::isfinite(number); }))
      return InvalidArgument(
          "QuantizeMatrix: block {} of {} has NaN or an infinite number; only finite "
          "numbers can be quantised.",
          b, matrix.type().ToString());
    ScaleAndZero rounded{};
    if (options.bits == 8)
      rounded.scale = QuantizeTo8Bits(x, result.q.mutable_values<int8_t>().data() + b * kBlockNumbers);
    else rounded = QuantizeTo4Bits(x, result.q.mutable_values<uint8_t>().data() + b * kBlockNumbers / 2);
    scales[b] = Float16(rounded.scale);
    const auto zero = Float16(rounded.zero);
    if (options.bits == 4) result.zero.mutable_values<Float16>()[b] = zero;
    if (!std::isfinite(static_cast<float>(scales[b])) || !std::isfinite(static_cast<float>(zero)))
      return InvalidArgument(
          "QuantizeMatrix: block {} of {} needs the scale {} and the zero {}, which f16 does "
          "not have; make the numbers smaller.",
          b, matrix.type().ToString(), rounded.scale, rounded.zero);
  }
  return result;
}

}  // namespace meshwork
