// Draws programs of moves of elements: slices, paddings, joins, reversals, rolls, and twins of them that are
// written differently, on NaN, infinities and -0. The ops between them are exact, so that one device and many
// give the same bits.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/ops/ops.h"
#include "support/program_drawer.h"
#include "support/twin_moves.h"

namespace meshwork {

class MovesDrawer : protected ProgramDrawer {
 public:
  explicit MovesDrawer(uint64_t seed) : ProgramDrawer(seed) {
    static constexpr DType kDTypes[] = {F32, F32, F64, BF16, I32, I64};
    dtype_ = Pick(kDTypes);
  }

  RandomProgram Draw() && {
    for (uint64_t i = 1 + Below(2); i > 0; --i) AddArgument();
    for (uint64_t i = 2 + Below(7); i > 0; --i) AddMove();
    MESHWORK_CHECK(graph().status().ok(), "{}", MessageOf(graph().status()));
    for (size_t id = 0; id < graph().values().size(); ++id) {
      ValueInfo& info = graph().mutable_value(static_cast<ValueId>(id));
      if (info.node >= 0 && Chance(15)) SetPin(info);
    }
    AddOutputs();
    return TakeProgram();
  }

 private:
  static constexpr int64_t kMostElements = 300;

  void AddArgument() {
    static constexpr int64_t kSizes[] = {0, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 12};
    Type type{dtype_, {}};
    for (uint64_t rank = 1 + Below(3); rank > 0; --rank) {
      const int64_t size = Pick(kSizes);
      if (type.num_elements() * size <= kMostElements / 4) type.shape.push_back(size);
    }
    if (type.rank() == 0) type.shape = {2};
    const std::string name = fmt::format("a{}", graph().arguments().size());
    ValueInfo info{.name = name, .type = type, .global = type};
    if (Chance(85)) SetPin(info);
    std::vector<double>& numbers = feeds()[name];
    for (int64_t i = 0; i < type.num_elements(); ++i) numbers.push_back(Number());
    values_.emplace_back(&graph(), graph().AddArgument(std::move(info), false));
  }

  bool is_real() const { return IsFloat(dtype_); }
  // A number for an element or a fill.
  double Number() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kSpecial[] = {0.0, -0.0, kInfinity, -kInfinity,
                                   std::numeric_limits<double>::quiet_NaN()};
    if (is_real() && Chance(30)) return Pick(kSpecial);
    return static_cast<double>(Below(9)) - (is_real() ? 4 : 0);
  }
  double Fill() { return is_real() && Chance(40) ? (Chance(50) ? 0.0 : -0.0) : Number(); }

  // A value, late ones more often than early ones.
  Value Any() { return Chance(50) ? values_.back() : Pick(values_); }

  void Add(const Value& value) {
    if (value.valid() && value.rank() > 0 && value.type().num_elements() <= kMostElements)
      values_.push_back(value);
  }

  void AddMove() {
    const Value x = Any();
    if (x.rank() > 3) return;
    const TwinMoves twins = DrawTwinMoves(x, [this](uint64_t n) { return Below(n); }, {.fill = Fill()});
    // Both twins are read, by different ops or by one op.
    const Value a = Chance(70) ? Exact(twins.a) : twins.a, b = Chance(70) ? Exact(twins.b) : twins.b;
    Add(a);
    Add(b);
    if (Chance(40)) Add(Chance(50) ? a + b : Maximum(a, b));
    if (Chance(20)) Add(Transposed(a));
    if (Chance(20)) Add(Tile(b, std::vector<int64_t>(b.shape().size(), 2)));
    if (Chance(20) && dtype_ != BF16) Add(Pooled(x));
  }

  // An op on x whose result is rounded in only one way, if at all.
  Value Exact(const Value& x) {
    if (!is_real()) return Chance(50) ? Neg(x) : x + x;
    switch (Below(5)) {
      case 0: return Neg(x);
      case 1: return Reciprocal(x);
      case 2: return Abs(x);
      case 3: return Sign(x);
      default: return Neg(x);
    }
  }

  Value Transposed(const Value& x) {
    std::vector<int64_t> permutation(x.shape().size());
    for (size_t d = 0; d < permutation.size(); ++d) permutation[d] = static_cast<int64_t>(d);
    for (size_t i = permutation.size(); i > 1; --i) std::swap(permutation[i - 1], permutation[Below(i)]);
    return Transpose(x, permutation);
  }

  // Twins that differ in padding which no window reaches.
  Value Pooled(const Value& x) {
    if (!is_real() || x.rank() != 3 || x.shape()[1] < 2 || x.type().num_elements() == 0) return {};
    const int64_t stride = 2 + static_cast<int64_t>(Below(2)), low = static_cast<int64_t>(Below(2));
    const int64_t rest = (x.shape()[1] + low - 2) % stride;  // behind the last window
    if (rest + 1 >= stride) return {};
    const auto pooled = [&](int64_t high) {
      return MaxPool(x, {2}, {.strides = {stride}, .padding = WindowPadding::Explicit({low}, {high})});
    };
    const Value a = Neg(pooled(0)), b = Abs(pooled(stride - rest - 1));
    Add(a);
    return b;
  }

  DType dtype_;
  std::vector<Value> values_;
};

}  // namespace meshwork
