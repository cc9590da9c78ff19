#include "tools/cli/tensor_difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "meshwork/base/status.h"
#include "meshwork/layout/block.h"

namespace meshwork::tools {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;  // that are read of each tensor at a time

template <typename T>
void Compare(const Tensor& a, const Tensor& b, TensorDifference& difference) {
  const auto left = a.values<T>(), right = b.values<T>();
  for (size_t i = 0; i < left.size(); ++i) {
    if (std::memcmp(&left[i], &right[i], sizeof(T)) == 0) continue;
    ++difference.elements;
    if constexpr (kIsReal<T>) {
      const auto x = static_cast<double>(left[i]), y = static_cast<double>(right[i]);
      if (std::isnan(x) || std::isnan(y)) ++difference.with_nan;
      else difference.largest = std::max(difference.largest, std::fabs(x - y));
    } else {
      // Without a sign there is no overflow.
      const auto x = static_cast<uint64_t>(left[i]), y = static_cast<uint64_t>(right[i]);
      difference.largest_whole = std::max(difference.largest_whole, left[i] < right[i] ? y - x : x - y);
    }
  }
}

}  // namespace

absl::StatusOr<TensorDifference> Difference(const TensorSource& a, const TensorSource& b,
                                            const std::string& name, ProgressLine& progress) {
  TensorDifference difference;
  const Type& type = a.types().at(name);
  for (const Block& box : CutToFit(WholeBlock(type.shape), kMostBytes / DTypeSize(type.dtype))) {
    MESHWORK_ASSIGN_OR_RETURN(const Tensor left, a.Read(name, box));
    MESHWORK_ASSIGN_OR_RETURN(const Tensor right, b.Read(name, box));
    progress.Add(left.bytes());
    if (std::memcmp(left.raw(), right.raw(), static_cast<size_t>(left.bytes())) == 0) continue;
    DispatchAny(type.dtype, [&](auto zero) { Compare<decltype(zero)>(left, right, difference); });
  }
  return difference;
}

std::string Describe(const TensorDifference& difference, const Type& type) {
  std::string out =
      fmt::format("{} of {} differ", difference.elements, Count(type.num_elements(), "element"));
  if (difference.elements > difference.with_nan) {
    out += IsReal(type.dtype) ? fmt::format(", by at most {}", difference.largest)
                              : fmt::format(", by at most {}", difference.largest_whole);
  }
  if (difference.with_nan > 0) out += fmt::format("; in {} of them there is a NaN", difference.with_nan);
  return out;
}

}  // namespace meshwork::tools
