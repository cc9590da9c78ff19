// Draws a program and computes it on one device while it grows, so that an op can be chosen by the numbers
// that it would get.
//
//   if (const Value x = Real(); !IsNear(NumbersOf(x), 0)) Relu(x);
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/ir/builder.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"
#include "support/program_drawer.h"

namespace meshwork {

using Numbers = std::vector<double>;
using Ints = std::vector<int64_t>;

// The largest magnitude; infinity if a number is infinite or NaN.
inline double Largest(const Numbers& numbers) {
  double largest = 0;
  for (double x : numbers)
    largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : std::numeric_limits<double>::infinity();
  return largest;
}

// Reals are f64.
class ComputedDrawer : protected ProgramDrawer {
 protected:
  // Ops read no values with larger reals, and no tensors of more elements.
  static constexpr double kLarge = 4;
  static constexpr int64_t kMostElements = 400;

  explicit ComputedDrawer(uint64_t seed) : ProgramDrawer(seed) {
    for (int64_t& size : sizes_) size = Pick(kSizes);
    static constexpr uint64_t kPins[] = {0, 5, 12, 12, 30, 60};
    pins_ = Pick(kPins);
  }

  // The sizes of this program's dims: few, so that shapes fit each other.
  const std::array<int64_t, 3>& sizes() const { return sizes_; }

  // ---- Numbers.

  // Computes the nodes that are new, and pins and names some of their results. A body is computed as in its
  // first iteration.
  void Evaluate() {
    Frame& program = frames_.front();
    program.Resize();
    for (const Argument& argument : root().arguments()) {
      if (program.is_set[argument.value]) continue;
      const ValueInfo& info = root().value(argument.value);
      program.Set(argument.value, HostTensor(info.type, feeds().at(info.name)));
    }
    for (size_t depth = 1; depth < frames_.size(); ++depth) {
      Frame &around = frames_[depth - 1], &body = frames_[depth];
      body.Resize();
      for (const auto& [outer, inner] : body.graph->captured())
        if (!body.is_set[inner]) SetArgument(body, inner, around.tensors[outer]);
      // If a body draws random numbers, its remaining argument counts iterations, from 0 on.
      for (ValueId id = 0; id < static_cast<ValueId>(body.graph->values().size()); ++id) {
        const ValueInfo& info = body.graph->value(id);
        if (info.node < 0 && !body.is_set[id]) body.Set(id, HostTensor(info.type, {0}));
      }
    }
    EvaluateNodes(frames_.back());
  }

  const Numbers& NumbersOf(const Value& x) {
    Evaluate();
    return frames_.back().numbers[x.id()];
  }

  // ---- Bodies of loops. Values drawn between Enter and Leave are drawn in the body.

  // `first`: the arguments of the body, with their values in the first iteration.
  void Enter(Graph& body, const std::vector<std::pair<Value, HostTensor>>& first) {
    Evaluate();
    EnterBody(body);
    frames_.push_back({.graph = &body});
    frames_.back().Resize();
    for (const auto& [argument, tensor] : first) SetArgument(frames_.back(), argument.id(), tensor);
  }
  void Leave() {
    Evaluate();
    frames_.pop_back();
    LeaveBody();
  }
  const HostTensor& TensorOf(const Value& x) {
    Evaluate();
    return frames_.back().tensors[x.id()];
  }
  // Nothing that is drawn later reads x.
  void Hide(const Value& x) { frames_.back().hidden.insert(x.id()); }

  // x mapped into [low, high]; x itself if its numbers lie there.
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
    return AllOf(frames_.back(), dtype);
  }

  // A real value, late ones more often than early ones; in a body, sometimes a value from outside it.
  Value Real() {
    const std::vector<Value> all = All(F64);
    if (depth() > 0 && (all.empty() || Chance(15))) {
      const std::vector<Value> around = AllOf(frames_[depth() - 1], F64);
      return around.empty() ? NewArgument(F64, {Pick(sizes())}) : graph().Capture(Pick(around));
    }
    const size_t late = std::min<size_t>(all.size(), 6);
    return Chance(60) ? all[all.size() - 1 - Below(late)] : Pick(all);
  }
  // A real value that is no scalar, and not empty.
  Value Tensor() {
    for (int i = 0; i < 10; ++i)
      if (const Value x = Real(); x.rank() > 0 && x.type().num_elements() > 0) return x;
    return NewArgument(F64, {Pick(sizes())});
  }

  Shape DrawShape() {
    Shape shape;
    for (uint64_t rank = Chance(10) ? 0 : 1 + Below(3); rank > 0; --rank)
      shape.push_back(Chance(90) ? Pick(sizes()) : 1);
    if (NumElements(shape) <= kMostElements / 2) return shape;
    return {shape.front()};
  }

  // A new argument of the program; a body reads it like any value outside the body. Reals lie in [-1, 1),
  // integers in [0, high), a few of them just outside.
  Value NewArgument(DType dtype, const Shape& shape, int64_t high = 0) {
    const std::string name = fmt::format("a{}", root().arguments().size());
    const bool is_variable = dtype == F64 && Chance(55);
    ValueInfo info{.name = name, .type = {dtype, shape}, .global = {dtype, shape}};
    if (is_variable || Chance(75)) SetPin(info);
    const auto end = static_cast<double>(high);
    Numbers& feed = feeds()[name];  // of an empty argument, too
    for (int64_t i = NumElements(shape); i > 0; --i)
      feed.push_back(dtype == F64                  ? Uniform(-1, 1)
                     : dtype == BOOL || Chance(95) ? std::floor(Uniform(0, end))
                                                   : std::floor(Uniform(-2, end + 2)));
    const Value argument(&root(), root().AddArgument(std::move(info), is_variable));
    return graph().Capture(argument);
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

  // A graph that is being built, and the numbers of its values.
  struct Frame {
    Graph* graph;
    std::vector<HostTensor> tensors = {};
    std::vector<Numbers> numbers = {};  // the same
    std::vector<bool> is_set = {};
    size_t evaluated = 0;  // nodes
    std::set<ValueId> hidden = {};

    void Resize() {
      tensors.resize(graph->values().size());
      numbers.resize(graph->values().size());
      is_set.resize(graph->values().size());
    }
    void Set(ValueId id, HostTensor tensor) {
      numbers[id] = tensor.Numbers();
      tensors[id] = std::move(tensor);
      is_set[id] = true;
    }
  };

  void SetArgument(Frame& body, ValueId id, const HostTensor& tensor) {
    body.Set(id, tensor);
    if (ValueInfo& info = body.graph->mutable_value(id); Chance(pins_ / 2)) SetPin(info);
  }

  void EvaluateNodes(Frame& frame) {
    // The gradient of a loop adds results to it.
    for (size_t n = 0; n < frame.evaluated; ++n)
      if (const Node& node = frame.graph->nodes()[n]; IsControl(node)) EvaluateNode(frame, node);
    for (; frame.evaluated < frame.graph->nodes().size(); ++frame.evaluated)
      EvaluateNode(frame, frame.graph->nodes()[frame.evaluated]);
  }

  void EvaluateNode(Frame& frame, const Node& node) {
    const auto is_set = [&](ValueId id) { return frame.is_set[id]; };
    if (!node.results.empty() && std::all_of(node.results.begin(), node.results.end(), is_set)) return;
    std::vector<HostTensor> operands;
    for (ValueId id : node.operands) operands.push_back(frame.tensors[id]);
    std::vector<HostTensor> results = InterpretNode(*frame.graph, node, operands, nullptr);
    for (size_t r = 0; r < results.size(); ++r) {
      const ValueId id = node.results[r];
      if (frame.is_set[id]) continue;
      frame.Set(id, std::move(results[r]));
      ValueInfo& info = frame.graph->mutable_value(id);
      if (Chance(pins_) && !info.layout.has_value()) SetPin(info);
      if (Chance(5)) info.name = depth() == 0 ? fmt::format("h.{}", id) : fmt::format("b{}.{}", depth(), id);
    }
  }

  static std::vector<Value> AllOf(const Frame& frame, DType dtype) {
    std::vector<Value> all;
    for (size_t id = 0; id < frame.tensors.size(); ++id) {
      const Type& type = frame.graph->values()[id].type;
      if (type.dtype == dtype && type.num_elements() <= kMostElements &&
          (dtype != F64 || Largest(frame.numbers[id]) <= kLarge) &&
          !frame.hidden.contains(static_cast<ValueId>(id)))
        all.emplace_back(frame.graph, static_cast<ValueId>(id));
    }
    return all;
  }

  std::array<int64_t, 3> sizes_;
  uint64_t pins_ = 0;                                 // of so many results in a hundred
  std::vector<Frame> frames_ = {{.graph = &root()}};  // from the outside to the inside
};

}  // namespace meshwork
