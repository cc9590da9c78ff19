#include "meshwork/tools/check/double_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace meshwork {
namespace {

Shape ShapeOf(const Block& block) {
  Shape shape;
  for (const Extent& extent : block) shape.push_back(extent.size);
  return shape;
}

// The largest whole numbers have no exact double, and the double that they round to is beyond their range.
template <typename T>
T ToElement(double x) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    if (x >= -static_cast<double>(Limits::min())) return Limits::max();
  return static_cast<T>(x);
}

}  // namespace

std::vector<std::byte> ToBytes(const DoubleTensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.type.bytes()));
  DispatchAny(tensor.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::transform(tensor.values.begin(), tensor.values.end(), reinterpret_cast<T*>(bytes.data()),
                   ToElement<T>);
  });
  return bytes;
}

DoubleTensor FromBytes(const Type& type, const void* bytes) {
  DoubleTensor tensor{type, std::vector<double>(static_cast<size_t>(type.num_elements()))};
  DispatchAny(type.dtype, [&](auto zero) {
    // A bool that nobody has written may be any byte.
    using T = std::conditional_t<std::is_same_v<decltype(zero), bool>, uint8_t, decltype(zero)>;
    const auto* from = static_cast<const T*>(bytes);
    std::copy(from, from + tensor.values.size(), tensor.values.begin());
  });
  return tensor;
}

DoubleTensor PartOf(const DoubleTensor& whole, const Block& block) {
  DoubleTensor part{{whole.type.dtype, ShapeOf(block)}, {}};
  part.values.resize(static_cast<size_t>(part.type.num_elements()));
  for (size_t i = 0; i < part.values.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), at = 0, stride = 1;
    for (size_t d = block.size(); d-- > 0;) {
      at += (block[d].start + rest % block[d].size) * stride;
      rest /= block[d].size;
      stride *= whole.type.shape[d];
    }
    part.values[i] = whole.values[static_cast<size_t>(at)];
  }
  return part;
}

DoubleTensor Sampler::Draw(const Type& type, const OpRow& row) {
  DoubleTensor tensor{type, std::vector<double>(static_cast<size_t>(type.num_elements()))};
  if (type.dtype == BOOL) {
    DrawCoins(tensor.values);
  } else if (!IsReal(type.dtype)) {
    const int64_t low = type.dtype == U8 ? std::max<int64_t>(row.sample_int_low, 0) : row.sample_int_low;
    for (double& x : tensor.values)
      x = static_cast<double>(low) +
          static_cast<double>(Below(static_cast<uint64_t>(row.sample_int_high - low)));
  } else {
    const uint64_t levels = kind_ == 2 && type.dtype != BF16 ? 1024 : 16;
    for (double& x : tensor.values)
      x = row.sample_low + (row.sample_high - row.sample_low) * (static_cast<double>(Below(levels)) + 0.5) /
                               static_cast<double>(levels);
  }
  return tensor;
}

void Sampler::DrawCoins(std::vector<double>& coins) {
  for (double& x : coins) x = kind_ == 1 ? static_cast<double>(Below(2)) : static_cast<double>(kind_ == 2);
  for (int i = 0; i < 2 && kind_ != 1 && !coins.empty(); ++i)
    coins[Below(coins.size())] = static_cast<double>(kind_ != 2);
}

double Wrapped(DType dtype, double x) {
  if (dtype != I32) return x;
  return static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(x))));
}

bool Agree(DType dtype, std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) return false;
  const auto same = [](double x, double y) { return x == y || (x != x && y != y); };
  const double tolerance = dtype == F32    ? 1e-5
                           : dtype == F64  ? 1e-13
                           : dtype == BF16 ? 0.02
                           : dtype == F16  ? 0.002
                                           : 0;
  double scale = 1;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) scale = std::max(scale, std::abs(b[i]));
  for (size_t i = 0; i < a.size(); ++i) {
    if (same(a[i], b[i])) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return false;
    if (!(std::abs(a[i] - b[i]) <= tolerance * scale)) return false;
  }
  return true;
}

}  // namespace meshwork
