// Draws moves of elements that mean the same and are written differently.
//
//   const TwinMoves twins = DrawTwinMoves(x, below, {.fill = -0.0});   // x[0:8:2] and x[0:7:2], …
//
// Their elements are the same bit by bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "meshwork/ops/ops.h"

namespace meshwork {

struct TwinMoves {
  Value a, b;
};

struct TwinMovesOptions {
  double fill = 0;  // fill of the paddings
  bool may_be_empty = true;
};

class TwinMovesDrawer {
 public:
  TwinMovesDrawer(Value x, std::function<uint64_t(uint64_t)> below, const TwinMovesOptions& options)
      : x_(std::move(x)),
        below_(std::move(below)),
        fill_(options.fill),
        least_(options.may_be_empty ? 0 : 1),
        d_(Draw(0, x_.rank() - 1)),
        n_(x_.shape()[static_cast<size_t>(d_)]) {}

  TwinMoves Pair() {
    static constexpr TwinMoves (TwinMovesDrawer::*kPairs[])() = {
        &TwinMovesDrawer::Limits,   &TwinMovesDrawer::Strides,   &TwinMovesDrawer::Crops,
        &TwinMovesDrawer::Turns,    &TwinMovesDrawer::Swap,      &TwinMovesDrawer::Reversed,
        &TwinMovesDrawer::Interior, &TwinMovesDrawer::FillAlone, &TwinMovesDrawer::Stays,
        &TwinMovesDrawer::Again,    &TwinMovesDrawer::Parts,     &TwinMovesDrawer::Rolled,
        &TwinMovesDrawer::Padded,   &TwinMovesDrawer::Ones,      &TwinMovesDrawer::Empty,
        &TwinMovesDrawer::Nothing};  // the last two have empty tensors
    TwinMoves twins = (this->*kPairs[below_(std::size(kPairs) - (least_ == 0 ? 0 : 2))])();
    if (below_(2) == 0) std::swap(twins.a, twins.b);
    return twins;
  }

 private:
  using Ints = std::vector<int64_t>;

  int64_t Draw(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below_(static_cast<uint64_t>(high - low + 1)));
  }
  Value PadBy(const Value& x, int64_t low, int64_t high, int64_t interior = 0) {
    Ints lows(x.shape().size(), 0), highs = lows, interiors = lows;
    lows[static_cast<size_t>(d_)] = low;
    highs[static_cast<size_t>(d_)] = high;
    interiors[static_cast<size_t>(d_)] = interior;
    return Pad(x, lows, highs, fill_, interiors);
  }
  int64_t AnyStride() {
    constexpr int64_t kStrides[] = {
        1, 3, 1000, int64_t{1} << 59, int64_t{1} << 60, std::numeric_limits<int64_t>::max()};
    return kStrides[below_(std::size(kStrides))];
  }

  // Slices with different ends behind the same last element.
  TwinMoves Limits() {
    if (n_ == 0) return Nothing();
    const int64_t start = Draw(0, n_ - 1), stride = Draw(1, 3), limit = Draw(start + 1, n_);
    const int64_t last = start + (limit - start - 1) / stride * stride;
    return {SliceDim(x_, d_, start, limit, stride),
            SliceDim(x_, d_, start, Draw(last + 1, std::min(n_, last + stride)), stride)};
  }
  // The stride of one element does not matter.
  TwinMoves Strides() {
    if (n_ == 0) return Nothing();
    const int64_t start = Draw(0, n_ - 1);
    return {SliceDim(x_, d_, start, start + 1, AnyStride()),
            SliceDim(x_, d_, start, n_, std::max(n_, AnyStride()))};
  }
  TwinMoves Nothing() {
    const int64_t a = Draw(0, n_), b = Draw(0, n_);
    return {SliceDim(x_, d_, a, a, AnyStride()), SliceDim(x_, d_, b, b, AnyStride())};
  }
  // A slice, and negative padding.
  TwinMoves Crops() {
    const int64_t start = Draw(0, n_ - least_), limit = Draw(start + least_, n_);
    return {SliceDim(x_, d_, start, limit), PadBy(x_, -start, limit - n_)};
  }
  TwinMoves Turns() {
    const int64_t shift = Draw(-4, 4);
    return {Roll(x_, shift, d_), Roll(x_, shift + Draw(-3, 3) * n_, d_)};
  }
  // The two elements of a dim: rolled up, rolled down, or reversed.
  TwinMoves Swap() {
    if (n_ < 2) return Turns();
    const Value two = SliceDim(x_, d_, 0, 2);
    const auto swapped = [&](int64_t how) {
      return how == 0 ? Reverse(two, {d_}) : Roll(two, how == 1 ? 1 : -1, d_);
    };
    const int64_t how = Draw(0, 2);
    return {swapped(how), swapped((how + Draw(1, 2)) % 3)};
  }
  // Reversed along dims in any order, and along dims of one element.
  TwinMoves Reversed() {
    Ints dims;
    for (int64_t d = 0; d < x_.rank(); ++d)
      if (d == d_ || Draw(0, 1) == 0) dims.push_back(d);
    Ints others;
    for (size_t i = dims.size(); i-- > 0;)
      if (x_.shape()[static_cast<size_t>(dims[i])] != 1) others.push_back(dims[i]);
    return {Reverse(x_, dims), Reverse(x_, others)};
  }
  // Interior padding of one element does not matter.
  TwinMoves Interior() {
    const Value one = n_ == 0 ? x_ : SliceDim(x_, d_, n_ - 1, n_);
    const int64_t low = Draw(0, 2), high = Draw(0, 2);
    return {PadBy(one, low, high, Draw(0, 9)), PadBy(one, low, high, 0)};
  }
  TwinMoves FillAlone() {
    const int64_t size = Draw(1, 4);
    return {PadBy(x_, size, -n_), PadBy(x_, -n_, size)};
  }
  TwinMoves Empty() {
    const Value nothing = SliceDim(x_, d_, Draw(0, n_), n_, std::max<int64_t>(n_, 1));
    const Value empty = SliceDim(nothing, d_, 0, 0);
    return {Concat({empty, x_}, d_), Draw(0, 1) == 0 ? Concat({x_, empty}, d_) : Concat({x_}, d_)};
  }
  Value Stay() {
    switch (Draw(0, 4)) {
      case 0: return SliceDim(x_, d_, 0, n_);
      case 1: return PadBy(x_, 0, 0);
      case 2: return Roll(x_, Draw(-2, 2) * n_, d_);
      case 3: return Reverse(x_, {});
      default: return Concat({x_}, d_);
    }
  }
  TwinMoves Stays() { return {Stay(), Stay()}; }
  // A move followed by its inverse, and x itself.
  TwinMoves Again() {
    switch (Draw(0, 2)) {
      case 0: return {Reverse(Reverse(x_, {d_}), {d_}), Stay()};
      case 1: return {Roll(Roll(x_, 1, d_), -1, d_), Stay()};
      default: return {PadBy(PadBy(x_, 2, 1), -2, -1), Stay()};
    }
  }
  // A slice of a slice, and one slice.
  TwinMoves Parts() {
    const int64_t start = Draw(0, n_ - least_), limit = Draw(start + least_, n_);
    const int64_t first = Draw(0, limit - start - least_), end = Draw(first + least_, limit - start);
    return {SliceDim(SliceDim(x_, d_, start, limit), d_, first, end),
            SliceDim(x_, d_, start + first, start + end)};
  }
  // A roll, and the slices and the join that it consists of.
  TwinMoves Rolled() {
    if (n_ < 2) return Turns();
    const int64_t shift = Draw(least_, n_ - least_);
    return {Roll(x_, shift, d_),
            Concat({SliceDim(x_, d_, n_ - shift, n_), SliceDim(x_, d_, 0, n_ - shift)}, d_)};
  }
  TwinMoves Padded() {
    const int64_t a = Draw(0, 2), b = Draw(0, 2), c = Draw(0, 2);
    return {PadBy(PadBy(x_, a, b), c, 0), PadBy(x_, a + c, b)};
  }
  // A dim of one element, added by any op that adds one.
  TwinMoves Ones() {
    Shape shape = x_.shape();
    shape.insert(shape.begin() + d_, 1);
    Ints dims;
    for (int64_t d = 0; d <= x_.rank(); ++d)
      if (d != d_) dims.push_back(d);
    const Value made = Draw(0, 1) == 0 ? Reshape(x_, shape) : BroadcastTo(x_, shape, dims);
    return {ExpandDims(x_, {d_}), made};
  }

  const Value x_;
  const std::function<uint64_t(uint64_t)> below_;
  const double fill_;
  const int64_t least_;  // elements of a result
  const int64_t d_, n_;  // a dim of x, and its size
};

// `below(n)` draws from [0, n). REQUIRES: x is no scalar, and not empty unless the twins may be.
inline TwinMoves DrawTwinMoves(const Value& x, std::function<uint64_t(uint64_t)> below,
                               const TwinMovesOptions& options) {
  return TwinMovesDrawer(x, std::move(below), options).Pair();
}

}  // namespace meshwork
