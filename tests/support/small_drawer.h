// Draws small programs of products, elementwise ops, reductions and moves, whose layouts can all be tried.
//
//   Graph graph = SmallDrawer(/*seed=*/7, /*most=*/1000).Draw();   // the same on every machine
//   OpenLayouts(graph)                                             // at most 1000 combinations
//
// Some arguments are pinned, the first one to blocks; all other values are left to the compiler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

// Every layout in which `axes` cut dims of `shape` into equal parts: each axis cuts one dim or none, and axes of one
// dim stand in any order.
inline std::vector<Layout> EvenLayouts(const Mesh& mesh, AxisSet axes, const Shape& shape) {
  std::vector<std::vector<AxisList>> all = {std::vector<AxisList>(shape.size())};
  for (int axis : axes.ToList()) {
    const std::vector<std::vector<AxisList>> without = all;
    for (const std::vector<AxisList>& dims : without) {
      for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] % ((mesh.GroupSize(dims[d]) * mesh.GroupSize({axis}))) != 0) continue;
        for (size_t at = 0; at <= dims[d].size(); ++at) {
          std::vector<AxisList> more = dims;
          more[d].insert(more[d].begin() + static_cast<int64_t>(at), axis);
          all.push_back(std::move(more));
        }
      }
    }
  }
  std::vector<Layout> layouts;
  for (std::vector<AxisList>& dims : all) layouts.emplace_back(mesh, std::move(dims));
  return layouts;
}

// The layouts to which a value could be pinned; nullopt: no pin, so that the value may also owe a sum.
struct OpenValue {
  ValueId id;
  std::vector<std::optional<Layout>> pins;
};

// The axes in pins. The compiler shards no value along an axis that no pin names.
inline AxisSet NamedAxes(const Graph& graph) {
  AxisSet axes;
  for (const ValueInfo& info : graph.values())
    if (info.layout.has_value()) axes = axes.Union(info.layout->ShardedAxes());
  return axes;
}

// The values without a pin, with all even layouts. A value that cannot owe a sum, or is an output, is always pinned.
inline std::vector<OpenValue> OpenLayouts(const Graph& graph) {
  const AxisSet axes = NamedAxes(graph);
  std::vector<bool> may_owe(graph.values().size(), false);
  for (const Node& node : graph.nodes()) {
    bool owes = false;
    for (const Letter& letter : RuleOf(graph, node).letters) owes |= letter.reduced && letter.size > 1;
    for (ValueId id : node.operands) owes |= may_owe[id];
    for (ValueId id : node.results) may_owe[id] = owes;
  }
  for (const OutputInfo& output : graph.outputs()) may_owe[output.value] = false;
  std::vector<OpenValue> open;
  for (ValueId id = 0; id < static_cast<ValueId>(may_owe.size()); ++id) {
    const ValueInfo& info = graph.value(id);
    if (info.layout.has_value()) continue;
    OpenValue value{id};
    if (may_owe[id]) value.pins.emplace_back(std::nullopt);
    for (Layout& layout : EvenLayouts(graph.mesh(), axes, info.type.shape))
      value.pins.emplace_back(std::move(layout));
    if (value.pins.size() > 1) open.push_back(std::move(value));
  }
  return open;
}

// The number of combinations of their layouts; `most` + 1 if there are more.
inline int64_t Combinations(const std::vector<OpenValue>& open, int64_t most) {
  int64_t count = 1;
  for (const OpenValue& value : open)
    if ((count *= static_cast<int64_t>(value.pins.size())) > most) return most + 1;
  return count;
}

class SmallDrawer {
 public:
  // `most`: combinations of layouts.
  SmallDrawer(uint64_t seed, int64_t most)
      : engine_(seed), most_(most), graph_(Mesh::Parse(kMeshes[Below(std::size(kMeshes))]).value()) {
    graph_.name = "small";
  }

  Graph Draw() && {
    NewArgument(F32, {Size(), Size()}, /*is_pinned=*/true);
    const size_t count = 2 + Below(9);
    for (int tries = 0; tries < 30 && graph_.nodes().size() < count; ++tries) {
      Graph before = graph_;
      const int pinned = pinned_;
      AddOp();
      if (graph_.nodes().size() <= kMostNodes && graph_.status().ok() &&
          Combinations(OpenLayouts(graph_), most_) <= most_)
        continue;
      graph_ = std::move(before);
      pinned_ = pinned;
    }
    std::vector<bool> is_read(graph_.values().size(), false);
    for (const Node& node : graph_.nodes())
      for (ValueId id : node.operands) is_read[id] = true;
    for (size_t id = 0; id < is_read.size(); ++id)
      if (!is_read[id]) graph_.AddOutput({fmt::format("y{}", id), static_cast<ValueId>(id)});
    for (const OutputInfo& output : graph_.outputs())
      if (graph_.value(output.value).node >= 0 && Below(100) < 30) Pin(output.value);
    return std::move(graph_);
  }

 private:
  static constexpr std::string_view kMeshes[] = {"x=2", "x=4", "x=2,y=2"};
  static constexpr int64_t kSizes[] = {4, 8, 64, 256};
  static constexpr size_t kMostNodes = 10;
  static constexpr int kMostPinned = 3;  // arguments

  uint64_t Below(uint64_t n) { return engine_() % n; }
  int64_t Size() { return kSizes[Below(std::size(kSizes))]; }

  void Pin(ValueId id) {
    ValueInfo& info = graph_.mutable_value(id);
    AxisSet axes = NamedAxes(graph_);
    if (info.node < 0)
      for (int axis = 0; axis < graph_.mesh().num_axes(); ++axis) axes.Add(axis);
    const std::vector<Layout> layouts = EvenLayouts(graph_.mesh(), axes, info.type.shape);
    // A whole layout, the first of them, is drawn less often.
    info.layout = layouts[layouts.size() > 1 && Below(5) > 0 ? 1 + Below(layouts.size() - 1) : 0];
  }

  Value NewArgument(DType dtype, const Shape& shape, bool is_pinned = false) {
    const Type type{dtype, shape};
    const ValueId id = graph_.AddArgument(
        {.name = fmt::format("a{}", graph_.arguments().size()), .type = type, .global = type},
        /*is_variable=*/false);
    if (is_pinned || (pinned_ < kMostPinned && Below(2) == 0)) {
      Pin(id);
      ++pinned_;
    }
    return Value(&graph_, id);
  }

  // A real value, most often one of the last.
  Value Real() {
    const auto count = static_cast<ValueId>(graph_.values().size());
    for (;;) {
      const auto id =
          static_cast<ValueId>(Below(3) > 0 ? count - 1 - static_cast<ValueId>(Below(2)) % count
                                            : static_cast<ValueId>(Below(static_cast<uint64_t>(count))));
      if (graph_.value(id).type.dtype == F32) return Value(&graph_, id);
    }
  }

  // Another value of the shape, or a new argument.
  Value OfShape(const Shape& shape, ValueId but) {
    for (ValueId id = static_cast<ValueId>(graph_.values().size()); id-- > 0;)
      if (id != but && graph_.value(id).type == Type{F32, shape} && Below(3) > 0) return Value(&graph_, id);
    return NewArgument(F32, shape);
  }

  void AddOp() {
    const Value x = Real();
    if (x.rank() == 0) return;
    const Shape shape = x.shape();  // arguments move what a reference would refer to
    const auto rank = static_cast<int64_t>(shape.size());
    const auto dim = static_cast<int64_t>(Below(shape.size()));
    switch (Below(16)) {
      case 0: Tanh(x); break;
      case 1: Relu(x); break;
      case 2: static_cast<void>(x + OfShape(shape, x.id())); break;
      case 3: static_cast<void>(x * OfShape(shape, x.id())); break;
      case 4: static_cast<void>(x + OfShape({shape.back()}, x.id())); break;
      case 5:
        if (rank == 2) static_cast<void>(x * ExpandDims(OfShape({shape[0]}, x.id()), {1}));
        break;
      case 6:
      case 7:
      case 8:
        if (rank == 2) AddProduct(x, shape);
        break;
      case 9: ReduceSum(x, {dim}, Below(4) == 0); break;
      case 10: ReduceMax(x, {dim}, Below(2) == 0); break;
      case 11:
        if (rank == 2) Transpose(x, {1, 0});
        break;
      case 12: Softmax(x, dim); break;
      case 13:
        if (rank == 2 && shape[0] * shape[1] <= 4096) Reshape(x, {shape[0] * shape[1]});
        else if (rank == 1 && shape[0] >= 64) Reshape(x, {shape[0] / 8, 8});
        break;
      case 14:
        if (rank == 1) BroadcastTo(x, {Size(), shape[0]}, {1});
        else static_cast<void>(ReduceSum(Square(x)));
        break;
      default:
        if (Below(2) == 0) Gather(x, NewArgument(I32, {Size()}), dim);
        else if (rank == 2) static_cast<void>(x * OneHot(NewArgument(I32, {shape[0]}), shape[1], F32));
    }
  }

  // On either dim of x.
  void AddProduct(const Value& x, const Shape& shape) {
    const bool transpose_x = Below(4) == 0, transpose_y = Below(4) == 0;
    const int64_t k = shape[transpose_x ? 0 : 1], n = Size();
    const Value y = OfShape(transpose_y ? Shape{n, k} : Shape{k, n}, x.id());
    MatMul(x, y, transpose_x, transpose_y);
  }

  std::mt19937_64 engine_;
  const int64_t most_;
  int pinned_ = 0;  // arguments
  Graph graph_;
};

}  // namespace meshwork
