// Draws ops on places and along one dim, for programs whose gradients are compared: an op that jumps is drawn
// only if no number is near the jump.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/computed_drawer.h"

namespace meshwork {

class PlacesDrawer : protected ComputedDrawer {
 protected:
  // The least distance of every number from a corner, a tie or a jump.
  static constexpr double kMargin = 1e-3;

  explicit PlacesDrawer(uint64_t seed) : ComputedDrawer(seed) {}

  static bool IsNear(const Numbers& numbers, double point) {
    return std::any_of(numbers.begin(), numbers.end(),
                       [&](double x) { return std::abs(x - point) < kMargin; });
  }
  // Whether some number lies near a multiple of one half.
  static bool IsNearJump(const Numbers& numbers) {
    return std::any_of(numbers.begin(), numbers.end(),
                       [](double x) { return std::abs(2 * x - std::round(2 * x)) < kMargin; });
  }
  static bool HasTies(Numbers numbers) {
    std::sort(numbers.begin(), numbers.end());
    for (size_t i = 1; i < numbers.size(); ++i)
      if (numbers[i] - numbers[i - 1] < kMargin / 10) return true;
    return false;
  }

  // ---- Each returns what it made, an invalid value if it could not.

  Value Accumulated() {
    const Value x = Tensor();
    const int64_t d = DimOf(x);
    const bool exclusive = Chance(30), reverse = Chance(50);
    switch (Below(5)) {
      case 0: return Cumprod(Fit(x, 0.6, 1.4), d, exclusive, reverse);
      case 1: return LinearRecurrence(Fit(x, -0.9, 0.9), Like(x), d, reverse);
      case 2:
        if (HasTies(NumbersOf(x))) return {};
        return Chance(50) ? Cummax(x, d, false, reverse) : Cummin(x, d, false, reverse);
      default: return Cumsum(x, d, exclusive, reverse);
    }
  }

  Value Arranged() {
    const Value x = Tensor();
    if (HasTies(NumbersOf(x))) return {};
    const int64_t d = DimOf(x), size = x.shape()[static_cast<size_t>(d)];
    if (Chance(50)) return Sort(x, d, Chance(50)).values;
    return TopK(x, 1 + static_cast<int64_t>(Below(static_cast<uint64_t>(size))), d).values;
  }

  Value AlongDim() {
    const Value x = Tensor();
    const auto d = static_cast<size_t>(DimOf(x));
    Shape shape = x.shape();
    const int64_t size = shape[d];
    shape[d] = Pick(sizes());
    if (NumElements(shape) > kMostElements) return {};
    if (Chance(50)) return TakeAlongDim(x, NewIndices(shape, size), static_cast<int64_t>(d));
    return ScatterAddAlongDim(x, NewIndices(x.shape(), shape[d]), shape, static_cast<int64_t>(d));
  }

  Value AtPlaces() {
    const Value x = Tensor();
    const int64_t batch = x.rank() > 1 && Chance(30) ? 1 : 0;
    const auto most = static_cast<uint64_t>(x.rank() - batch);
    const auto k = 1 + static_cast<int64_t>(Below(most));
    const int64_t places = Pick(sizes());
    Shape indices(x.shape().begin(), x.shape().begin() + batch);
    indices.insert(indices.end(), {places, k});
    Shape result(indices.begin(), indices.end() - 1);
    result.insert(result.end(), x.shape().begin() + batch + k, x.shape().end());
    if (NumElements(result) > kMostElements || NumElements(indices) > kMostElements) return {};
    const Value at = NewIndices(indices, *std::max_element(x.shape().begin(), x.shape().end()));
    if (Chance(50)) return GatherNd(x, at, batch);
    return ScatterNdAdd(NewArgument(F64, result), at, Shape(x.shape()), batch);
  }

  Value Overwritten() {
    const Value x = Tensor();
    const auto d = static_cast<size_t>(DimOf(x));
    const int64_t size = x.shape()[d], count = Pick(sizes());
    Shape shape = x.shape();
    shape[d] = count;
    if (NumElements(shape) > kMostElements) return {};
    const Value updates = NewArgument(F64, shape), at = NewIndices({count}, size);
    if (Chance(60)) return ScatterUpdate(x, updates, at, static_cast<int64_t>(d));
    if (HasTies(NumbersOf(updates))) return {};
    // Elements without an update are infinite; x takes their place.
    const Value most = Chance(50) ? ScatterMax(updates, at, Shape(x.shape()), static_cast<int64_t>(d))
                                  : ScatterMin(updates, at, Shape(x.shape()), static_cast<int64_t>(d));
    return Select(IsFinite(most), most, x);
  }

  Value MovedWindow() {
    const Value x = Tensor();
    Ints dims, sizes_of;
    Shape shape = x.shape();
    for (int64_t d = 0; d < x.rank(); ++d) {
      if (Chance(40)) continue;
      int64_t& size = shape[static_cast<size_t>(d)];
      size = 1 + static_cast<int64_t>(Below(static_cast<uint64_t>(size)));
      dims.push_back(d);
      sizes_of.push_back(size);
    }
    const Value start = NewIndices({static_cast<int64_t>(dims.size())}, 4);
    if (Chance(50)) return DynamicSlice(x, start, dims, sizes_of);
    return DynamicUpdateSlice(x, NewArgument(F64, shape), start, dims);
  }

  // Whole numbers become reals.
  Value Counted() {
    const Value x = NewIndices({Pick(sizes())}, 100);
    const auto stream = static_cast<int64_t>(graph().nodes().size());
    const Type type = x.type();
    switch (Below(4)) {
      case 0: return Cast(Popcount(x), F64) * 0.1;
      case 1: return Cast(CountLeadingZeros(x), F64) * 0.05;
      case 2: return Cast(Bitcast(Bitcast(x, type.dtype == I32 ? F32 : F64), type.dtype), F64) * 0.01;
      default: return Cast(RandomInt(graph(), type, 3, stream, -5, 20), F64) * 0.1;
    }
  }

  Value Repetition() {
    const Value x = Tensor();
    if (3 * x.type().num_elements() > kMostElements || x.rank() > 3) return {};
    const int64_t d = DimOf(x);
    if (Chance(40)) return Repeat(x, 1 + static_cast<int64_t>(Below(3)), d);
    if (Chance(30)) return Shuffle(x, d, 3, static_cast<int64_t>(graph().nodes().size()));
    Ints repeats(x.shape().size(), 1);
    repeats[static_cast<size_t>(d)] = 1 + static_cast<int64_t>(Below(3));
    return Tile(x, repeats);
  }

  Value Statistic() {
    const Value x = Tensor();
    const Ints dims = DimsOf(x);
    const bool keep = Chance(30);
    switch (Below(4)) {
      case 0: return Variance(x, dims, 0, keep);
      case 1: return LogSumExp(x, dims, keep);
      case 2: return SoftmaxOver(x, dims);
      default: return Norm(Fit(x, 0.1, 4), dims, 1 + static_cast<double>(Below(2)), keep);
    }
  }

  // Solves with matrices that are far from singular.
  Value Solved() {
    const Value x = Tensor();
    if (x.rank() < 2) return {};
    const int64_t n = x.shape()[x.shape().size() - 2], columns = x.shape().back();
    Shape square = x.shape();
    square.back() = n;
    if (n > 6 || columns > 8 || NumElements(square) > kMostElements) return {};
    const Value eye = Eye(graph(), {F64, {n, n}});
    if (Chance(40)) return Cholesky(MatMul(x, x, false, true) + eye);
    if (Chance(50))
      return TriangularSolve(NewArgument(F64, square) * 0.3 + eye * 2.0, x, {.lower = Chance(50)});
    if (columns < n) return {};
    const QrResult qr = Qr(MatMul(x, x, false, true) * 0.2 + eye);
    return Chance(50) ? qr.q : qr.r;
  }
};

}  // namespace meshwork
