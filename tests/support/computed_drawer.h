// Draws a program and computes it meanwhile, on one device: an op can be chosen by the numbers that it would
// get.
//
//   if (const Value x = Real(); !IsNear(NumbersOf(x), 0)) Relu(x);
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/builder.h"
#include "ops/ops.h"
#include "support/interpreter.h"
#include "support/program_drawer.h"

namespace meshwork {

using Numbers = std::vector<double>;
using Ints = std::vector<int64_t>;

// Infinity if one is no number.
inline double Largest(const Numbers& numbers) {
  double largest = 0;
  for (double x : numbers)
    largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : std::numeric_limits<double>::infinity();
  return largest;
}

// Reals are f64.
class ComputedDrawer : protected ProgramDrawer {
 protected:
  // Reals that are larger, and tensors of more elements, are read no further.
  static constexpr double kLarge = 4;
  static constexpr int64_t kMostElements = 400;

  explicit ComputedDrawer(uint64_t seed) : ProgramDrawer(seed) {
    for (int64_t& size : sizes_) size = Pick(kSizes);
    static constexpr uint64_t kPins[] = {0, 5, 12, 12, 30, 60};
    pins_ = Pick(kPins);
  }

  // Those of this program: few, so that shapes meet.
  const std::array<int64_t, 3>& sizes() const { return sizes_; }

  // ---- Numbers.

  // Computes the nodes that are new, and pins and names some of their results.
  void Evaluate() {
    const std::vector<Node>& nodes = graph().nodes();
    tensors_.resize(graph().values().size());
    numbers_.resize(graph().values().size());
    for (const Argument& argument : graph().arguments()) {
      if (!numbers_[argument.value].empty()) continue;
      const ValueInfo& info = graph().value(argument.value);
      SetNumbers(argument.value, HostTensor(info.type, feeds().at(info.name)));
    }
    for (; evaluated_ < nodes.size(); ++evaluated_) {
      const Node& node = nodes[evaluated_];
      std::vector<TensorPart> operands, results;
      for (ValueId id : node.operands) operands.emplace_back(tensors_[id]);
      for (ValueId id : node.results) results.emplace_back(HostTensor(graph().value(id).type));
      RunKernel(*node.row, node.attrs, operands, results);
      for (size_t r = 0; r < results.size(); ++r) {
        SetNumbers(node.results[r], std::move(results[r].local));
        ValueInfo& info = graph().mutable_value(node.results[r]);
        if (Chance(pins_) && !info.layout.has_value()) SetPin(info);
        if (Chance(5)) info.name = fmt::format("h.{}", node.results[r]);
      }
    }
  }

  const Numbers& NumbersOf(const Value& x) {
    Evaluate();
    return numbers_[x.id()];
  }

  // x taken into [low, high], itself if it lies there.
  Value Fit(const Value& x, double low, double high) {
    const Numbers& numbers = NumbersOf(x);
    if (std::all_of(numbers.begin(), numbers.end(), [&](double v) { return v >= low && v <= high; }))
      return x;
    if (std::isinf(high)) return Square(x) + low;
    return Tanh(x) * (0.45 * (high - low)) + 0.5 * (high + low);
  }

  // ---- Values to read.

  std::vector<Value> All(DType dtype) {
    Evaluate();
    std::vector<Value> all;
    for (size_t id = 0; id < graph().values().size(); ++id) {
      const Type& type = graph().values()[id].type;
      if (type.dtype == dtype && type.num_elements() <= kMostElements &&
          (dtype != F64 || Largest(numbers_[id]) <= kLarge))
        all.emplace_back(&graph(), static_cast<ValueId>(id));
    }
    return all;
  }

  // Late ones more often than early ones.
  Value Real() {
    const std::vector<Value> all = All(F64);
    const size_t late = std::min<size_t>(all.size(), 6);
    return Chance(60) ? all[all.size() - 1 - Below(late)] : Pick(all);
  }
  // One that is no scalar.
  Value Tensor() {
    for (int i = 0; i < 10; ++i)
      if (const Value x = Real(); x.rank() > 0) return x;
    return NewArgument(F64, {Pick(sizes())});
  }

  Shape DrawShape() {
    Shape shape;
    for (uint64_t rank = Chance(10) ? 0 : 1 + Below(3); rank > 0; --rank)
      shape.push_back(Chance(90) ? Pick(sizes()) : 1);
    if (NumElements(shape) <= kMostElements / 2) return shape;
    return {shape.front()};
  }

  // Reals lie in [-1, 1), integers in [0, high), now and then beside it.
  Value NewArgument(DType dtype, const Shape& shape, int64_t high = 0) {
    const std::string name = fmt::format("a{}", graph().arguments().size());
    const bool is_variable = dtype == F64 && Chance(55);
    ValueInfo info{.name = name, .type = {dtype, shape}, .global = {dtype, shape}};
    if (is_variable || Chance(75)) SetPin(info);
    const auto end = static_cast<double>(high);
    for (int64_t i = NumElements(shape); i > 0; --i)
      feeds()[name].push_back(dtype == F64 ? Uniform(-1, 1)
                              : Chance(95) ? std::floor(Uniform(0, end))
                                           : std::floor(Uniform(-2, end + 2)));
    return {&graph(), graph().AddArgument(std::move(info), is_variable)};
  }
  Value NewIndices(const Shape& shape, int64_t high) {
    return NewArgument(Chance(50) ? I32 : I64, shape, high);
  }

  bool Broadcasts(const Value& x, const Value& y) const {
    const absl::StatusOr<Shape> shape = BroadcastShapes({x.type(), y.type()});
    return shape.ok() && NumElements(*shape) <= kMostElements;
  }
  // A real that broadcasts with x.
  Value Partner(const Value& x) {
    for (int i = 0; i < 8; ++i)
      if (const Value y = Real(); Broadcasts(x, y) && (y.id() != x.id() || Chance(10))) return y;
    Shape shape = x.shape();
    for (int64_t& size : shape)
      if (Chance(15)) size = 1;
    if (!shape.empty() && Chance(30))
      shape.erase(shape.begin(), shape.begin() + 1 + static_cast<int64_t>(Below(shape.size())));
    return NewArgument(F64, shape);
  }
  // A real of x's shape.
  Value Like(const Value& x) {
    for (int i = 0; i < 8; ++i)
      if (const Value y = Real(); x.shape() == y.shape() && y.id() != x.id()) return y;
    return NewArgument(F64, x.shape());
  }

  int64_t DimOf(const Value& x) { return static_cast<int64_t>(Below(static_cast<uint64_t>(x.rank()))); }
  Ints DimsOf(const Value& x) {
    Ints dims;
    for (int64_t d = 0; d < x.rank(); ++d)
      if (Chance(60)) dims.push_back(d);
    if (dims.empty()) dims.push_back(DimOf(x));
    return dims;
  }
  static Ints AllDimsOf(const Value& x) {
    Ints dims;
    for (int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
    return dims;
  }

 private:
  static constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 2, 3, 4, 6, 8, 9, 11, 12};

  void SetNumbers(ValueId id, HostTensor tensor) {
    numbers_[id] = tensor.Numbers();
    tensors_[id] = std::move(tensor);
  }

  std::array<int64_t, 3> sizes_;
  uint64_t pins_ = 0;  // of so many results in a hundred
  std::vector<HostTensor> tensors_;
  std::vector<Numbers> numbers_;  // the same
  size_t evaluated_ = 0;          // nodes
};

}  // namespace meshwork
