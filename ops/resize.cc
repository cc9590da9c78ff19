// Images of other sizes, as sums of gathered rows: their partitioning and gradients follow from gather's.
#include <algorithm>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/given_sizes.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

constexpr int64_t kMostResized = int64_t{1} << 30;

// The place of position i of `to` among the positions of `from` along a dim. Pixels are aligned by their
// centres, so it is ((2 i + 1) from - to) / (2 to), exactly, as whole numbers.
struct Neighbours {
  Value above;      // [to]: ((2 i + 1) from + to), the numerator of the place plus 1
  int64_t divisor;  // 2 to
};

Neighbours NeighboursOf(Graph& graph, int64_t from, int64_t to) {
  const Value twice = Mul(OfGivenSizes(Iota(graph, {I64, {to}}, 0), "resize"), 2.0) + 1.0;
  return {Add(Mul(twice, static_cast<double>(from)), static_cast<double>(to)), 2 * to};
}

Value NearestElements(const Value& x, int64_t dim, int64_t to) {
  if (to % x.shape()[dim] == 0) return Repeat(x, to / x.shape()[dim], dim);
  const Neighbours places = NeighboursOf(*x.graph(), x.shape()[dim], to);
  // floor(place + 1/2)
  return Gather(x, Div(Sub(places.above, static_cast<double>(to)), static_cast<double>(places.divisor)), dim);
}

Value Bilinear(const Value& x, int64_t dim, int64_t to) {
  const DType dtype = x.dtype();
  const Neighbours places = NeighboursOf(*x.graph(), x.shape()[dim], to);
  const auto divisor = static_cast<double>(places.divisor);
  const Value above = Div(places.above, divisor);
  // Gather clamps indices beyond an end to the end.
  const Value low = Gather(x, Sub(above, 1.0), dim), high = Gather(x, above, dim);
  Shape shape(x.shape().size(), 1);
  shape[dim] = to;
  const DType real = dtype == F64 ? F64 : F32;
  Value share = Reshape(Div(Cast(Remainder(places.above, divisor), real), divisor), shape);
  if (dtype != real) share = Cast(share, dtype);
  return Add(Mul(low, Sub(1.0, share)), Mul(high, share));
}

}  // namespace

Value Resize(const Operand& x, const std::vector<int64_t>& sizes, ResizeForm form) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  Value resized = at.values[0];
  const Type type = resized.type();
  const auto spatial = static_cast<int64_t>(sizes.size());
  if (!IsFloat(type.dtype) || spatial < 1 || type.rank() != spatial + 2) {
    RecordMistake(at, "resize",
                  "x is {} and sizes=[{}]; x must be floats [n, spatial…, c] with a size for each "
                  "spatial dim.",
                  type.ToString(), fmt::join(sizes, ","));
    return {};
  }
  for (int64_t d = 0; d < spatial; ++d) {
    const int64_t from = type.shape[1 + d], to = sizes[d];
    if (to < 1 || to > kMostResized || from < 1 || from > kMostResized) {
      RecordMistake(at, "resize", "dim {} of {} cannot be resized from {} to {}; sizes go from 1 to 2^30.",
                    1 + d, type.ToString(), from, to);
      return {};
    }
    if (from == to) continue;
    resized =
        form == ResizeForm::kNearest ? NearestElements(resized, 1 + d, to) : Bilinear(resized, 1 + d, to);
  }
  return resized;
}

Value Upsample(const Operand& x, const std::vector<int64_t>& factors, ResizeForm form) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const Type type = at.values[0].type();
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < factors.size(); ++d) {
    const int64_t from = d + 1 < type.shape.size() ? type.shape[d + 1] : 1;
    if (factors[d] < 1 || factors[d] > kMostResized / std::max<int64_t>(from, 1)) {
      RecordMistake(at, "upsample",
                    "factors=[{}] of {}: a factor is at least 1, and no size becomes more than 2^30.",
                    fmt::join(factors, ","), type.ToString());
      return {};
    }
    sizes.push_back(from * factors[d]);
  }
  return Resize(x, sizes, form);
}

}  // namespace meshwork
