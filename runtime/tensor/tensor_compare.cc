#include "meshwork/runtime/tensor/tensor_compare.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

double Distance(double a, double b) {
  if (a == b) return 0;  // infinities, too
  const double distance = std::abs(a - b);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

double Distance(int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<double>(a > b ? x - y : y - x);
}

struct Differences {
  int64_t count = 0;
  int64_t worst = -1;  // the element that differs most, the first of several
  double distance = -1;
};

template <typename T>
Differences Compare(std::span<const T> actual, std::span<const T> expected, const Closeness& closeness) {
  Differences found;
  for (size_t i = 0; i < actual.size(); ++i) {
    const T a = actual[i], b = expected[i];
    if (a == b || (closeness.equal_nan && a != a && b != b)) continue;
    const double distance = Distance(a, b);
    const double size = std::abs(static_cast<double>(b));
    // The tolerance around an infinity is infinite, too, so an infinite distance needs a check of its own.
    if (distance <= closeness.atol + closeness.rtol * size && std::isfinite(distance)) continue;
    ++found.count;
    if (distance > found.distance) {
      found.distance = distance;
      found.worst = static_cast<int64_t>(i);
    }
  }
  return found;
}

Shape IndexOf(int64_t element, const Shape& shape) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0; element /= shape[d]) index[d] = element % shape[d];
  return index;
}

absl::Status CompareTensors(std::string_view name, const Tensor& actual, const Tensor& expected,
                            const Closeness& closeness) {
  MESHWORK_RETURN_IF_ERROR(Annotate(actual.status(), fmt::format("{}: of the actual tensor: ", name)));
  MESHWORK_RETURN_IF_ERROR(Annotate(expected.status(), fmt::format("{}: of the expected tensor: ", name)));
  if (actual.shape() != expected.shape())
    return InvalidArgument("{}: a {} and an expected {}; their shapes must be equal.", name,
                           actual.type().ToString(), expected.type().ToString());
  const auto compare = [&]<typename T>(T) {
    return Compare(std::as_const(actual).Cast(DTypeOf<T>()).template values<T>(),
                   expected.Cast(DTypeOf<T>()).template values<T>(), closeness);
  };
  const bool real = IsReal(actual.dtype()) || IsReal(expected.dtype());
  const Differences found = real ? compare(double{}) : compare(int64_t{});
  if (found.count == 0) return absl::OkStatus();
  const Shape index = IndexOf(found.worst, actual.shape());
  const std::string differing =
      closeness.atol == 0 && closeness.rtol == 0
          ? "that differ"
          : fmt::format("further than {} + {} * |expected| apart", closeness.atol, closeness.rtol);
  const auto shown = [&](const Tensor& x) { return x.Reshaped({x.num_elements()})[found.worst].ToString(); };
  return InvalidArgument("{}: elements {}: {} of {}; most at {}, {:.3g} apart: {}, expected {}.", name,
                         differing, found.count, actual.num_elements(), ShapeToString(index), found.distance,
                         shown(actual), shown(expected));
}

}  // namespace

absl::Status AllClose(const Tensor& actual, const Tensor& expected, const Closeness& closeness) {
  return CompareTensors("AllClose", actual, expected, closeness);
}

absl::Status AllEqual(const Tensor& actual, const Tensor& expected, bool equal_nan) {
  return CompareTensors("AllEqual", actual, expected, {.rtol = 0, .atol = 0, .equal_nan = equal_nan});
}

}  // namespace meshwork
