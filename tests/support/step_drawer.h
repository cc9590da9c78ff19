// Draws small steps whose inputs and variables wait for layouts, and machines for them.
//
//   DrawnStep step = StepDrawer(/*seed=*/7, /*most=*/100).Draw();   // the same on every machine
//   ArgumentLayouts(step.graph)    // at most 100 combinations
//
// The steps have products, elementwise ops, reductions, reshapes, transposes, scans with carries, and variables with
// updates. Some arguments and some results are pinned. The links of the machines are unequal.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/topology.h"
#include "support/small_drawer.h"

namespace meshwork {

// The arguments without a pin, with all layouts of even blocks.
inline std::vector<OpenValue> ArgumentLayouts(const Graph& graph) {
  AxisSet axes;
  for (int axis = 0; axis < graph.mesh().num_axes(); ++axis) axes.Add(axis);
  std::vector<OpenValue> open;
  for (const Argument& argument : graph.arguments()) {
    if (graph.value(argument.value).layout.has_value()) continue;
    OpenValue value{argument.value};
    for (Layout& layout : EvenLayouts(graph.mesh(), axes, graph.value(argument.value).type.shape))
      value.pins.emplace_back(std::move(layout));
    open.push_back(std::move(value));
  }
  return open;
}

struct DrawnStep {
  Graph graph;
  std::string text;  // of the graph
  Topology topology;
  std::string topology_text;  // JSON; empty: the assumed topology
};

class StepDrawer {
 public:
  // `most`: combinations of layouts of the open arguments.
  StepDrawer(uint64_t seed, int64_t most) : engine_(seed), most_(most) {}

  DrawnStep Draw() && {
    const Mesh mesh = Mesh::Parse(kMeshes[Below(std::size(kMeshes))]).value();
    for (;;) {
      std::string text = DrawText(mesh);
      absl::StatusOr<Graph> graph = ParseGraph(text);
      if (!graph.ok() || !graph->status().ok()) continue;
      const std::vector<OpenValue> open = ArgumentLayouts(*graph);
      const int64_t count = Combinations(open, most_);
      if (count < 2 || count > most_) continue;
      std::string topology = DrawTopology(mesh);
      return {.graph = *std::move(graph),
              .text = std::move(text),
              .topology = topology.empty() ? Topology() : Topology::Parse(mesh, topology).value(),
              .topology_text = topology};
    }
  }

 private:
  static constexpr std::string_view kMeshes[] = {"x=2",     "x=4",     "x=8",        "x=2,y=2",
                                                 "x=4,y=2", "x=2,y=4", "x=2,y=2,z=2"};
  static constexpr int64_t kSizes[] = {4, 8, 16, 32, 64, 256};

  struct Tensor {
    std::string name;
    Shape shape;
  };

  uint64_t Below(uint64_t n) { return engine_() % n; }
  bool Chance(uint64_t percent) { return Below(100) < percent; }
  int64_t Size() { return kSizes[Below(std::size(kSizes))]; }
  // Between two powers of ten, evenly in the exponent.
  double Power(double low, double high) {
    return std::pow(10, low + (high - low) * static_cast<double>(Below(101)) / 100);
  }

  std::string DrawTopology(const Mesh& mesh) {
    if (Chance(15)) return "";
    std::string axes;
    for (int axis = 0; axis < mesh.num_axes(); ++axis)
      axes += fmt::format(R"({}"{}": {{"bandwidth": {:.3g}, "latency": {:.3g}}})", axis > 0 ? ", " : "",
                          mesh.axis(axis).name, Power(8, 11), Chance(30) ? 0 : Power(-7, -4));
    return fmt::format(R"({{"axes": {{{}}}, "flops": {:.3g}}})", axes, Power(9, 14));
  }

  static std::string TypeOf(const Shape& shape) { return "f32" + ShapeText(shape); }
  static std::string ShapeText(const Shape& shape) {
    std::string text;
    for (int64_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : ",", size);
    return "[" + text + "]";
  }

  std::string PinText(const Mesh& mesh, const Shape& shape) {
    AxisSet axes;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) axes.Add(axis);
    const std::vector<Layout> layouts = EvenLayouts(mesh, axes, shape);
    return " " + layouts[Below(layouts.size())].ToString();
  }

  Tensor NewArgument(const Shape& shape, bool is_variable = false) {
    Tensor tensor{fmt::format("a{}", arguments_.size()), shape};
    arguments_.push_back({tensor, is_variable});
    return tensor;
  }
  const Tensor& Some() {
    return Chance(65) ? values_[values_.size() - 1 - Below(std::min<size_t>(2, values_.size()))]
                      : values_[Below(values_.size())];
  }
  Tensor OfShape(const Shape& shape, const std::string& but) {
    for (size_t i = values_.size(); i-- > 0;)
      if (values_[i].shape == shape && values_[i].name != but && Chance(60)) return values_[i];
    return NewArgument(shape, Chance(50));
  }
  void Add(const Shape& shape, const std::string& op) {
    const std::string name = fmt::format("v{}", values_.size());
    body_.push_back(fmt::format("  %{} = {}", name, op));
    results_.push_back({name, shape});
    values_.push_back({name, shape});
    lines_of_results_.push_back(body_.size() - 1);
  }

  void AddOp() {
    static constexpr std::string_view kUnary[] = {"tanh", "relu", "exp", "neg"};
    static constexpr std::string_view kBinary[] = {"add", "mul", "sub", "maximum"};
    const Tensor x = Some();
    const Shape& shape = x.shape;
    const auto rank = static_cast<int>(shape.size());
    if (rank == 0) return;
    const int dim = static_cast<int>(Below(shape.size()));
    switch (Below(14)) {
      case 0:
      case 1: Add(shape, fmt::format("{} %{}", kUnary[Below(4)], x.name)); break;
      case 2:
      case 3: {
        const Tensor y = OfShape(Chance(30) ? Shape{shape.back()} : shape, x.name);
        Add(shape, fmt::format("{} %{}, %{}", kBinary[Below(4)], x.name, y.name));
        break;
      }
      case 4:
      case 5:
      case 6:
      case 7:
        if (rank == 2) AddProduct(x);
        break;
      case 8: {
        Shape rest = shape;
        rest.erase(rest.begin() + dim);
        Add(rest, fmt::format("{} %{} dims=[{}]", Chance(70) ? "reduce_sum" : "reduce_max", x.name, dim));
        break;
      }
      case 9: {
        Shape kept = shape;
        kept[static_cast<size_t>(dim)] = 1;
        const std::string before = x.name;
        Add(kept, fmt::format("{} %{} dims=[{}] keep_dims=true", Chance(70) ? "reduce_sum" : "reduce_max",
                              before, dim));
        Add(shape, fmt::format("{} %{}, %{}", kBinary[Below(4)], before, values_.back().name));
        break;
      }
      case 10:
        if (rank == 2) Add({shape[1], shape[0]}, fmt::format("transpose %{} permutation=[1,0]", x.name));
        break;
      case 11:
        if (rank == 2) Add({shape[0] * shape[1]}, Reshape(x, {shape[0] * shape[1]}));
        else if (rank == 1 && shape[0] % 8 == 0) Add({shape[0] / 4, 4}, Reshape(x, {shape[0] / 4, 4}));
        break;
      default:
        if (rank == 2) AddScan(x);
    }
  }

  static std::string Reshape(const Tensor& x, const Shape& shape) {
    return fmt::format("reshape %{} shape={}", x.name, ShapeText(shape));
  }

  void AddProduct(const Tensor& x) {
    const bool transpose_x = Chance(20), transpose_y = Chance(20);
    const int64_t m = x.shape[transpose_x ? 1 : 0], k = x.shape[transpose_x ? 0 : 1], n = Size();
    const Tensor y = OfShape(transpose_y ? Shape{n, k} : Shape{k, n}, x.name);
    Add({m, n}, fmt::format("matmul %{}, %{}{}{}", x.name, y.name, transpose_x ? " transpose_a=true" : "",
                            transpose_y ? " transpose_b=true" : ""));
  }

  void AddScan(const Tensor& x) {
    const int64_t n = x.shape[1];
    const std::string type = TypeOf(x.shape);
    const int64_t length = 2 + static_cast<int64_t>(Below(4));
    switch (Below(3)) {
      case 0: {  // a recurrent layer
        const Tensor w = OfShape({n, n}, x.name);
        Add(x.shape, fmt::format("scan %{0}, %{1} length={2} (var %c: {3}, %w: {4}) {{\n"
                                 "    %p = matmul %c, %w\n    %q = tanh %p\n    update %c = %q\n  }}",
                                 x.name, w.name, length, type, TypeOf({n, n})));
        break;
      }
      case 1: {  // a sum of slices
        const Tensor y = NewArgument({length, x.shape[0], n});
        Add(x.shape, fmt::format("scan %{0}, %{1} length={2} slices=1 (var %c: {3}, %y: {3}) {{\n"
                                 "    %q = {4} %y\n    %s = add %c, %q\n    update %c = %s\n  }}",
                                 x.name, y.name, length, type, Chance(50) ? "tanh" : "neg"));
        break;
      }
      default: {  // a sum of products
        const int64_t k = Size();
        const Tensor y = NewArgument({length, k, x.shape[0]});
        const Tensor w = OfShape({k, n}, x.name);
        Add(x.shape,
            fmt::format("scan %{0}, %{1}, %{2} length={3} slices=1 (var %c: {4}, %y: {5}, %w: {6}) {{\n"
                        "    %p = matmul %y, %w transpose_a=true\n    %s = add %c, %p\n"
                        "    update %c = %s\n  }}",
                        x.name, y.name, w.name, length, type, TypeOf({k, x.shape[0]}), TypeOf({k, n})));
      }
    }
  }

  std::string DrawText(const Mesh& mesh) {
    arguments_.clear();
    values_.clear();
    results_.clear();
    body_.clear();
    lines_of_results_.clear();
    values_.push_back(NewArgument({Size(), Size()}));
    const size_t count = 1 + Below(7);
    for (int tries = 0; tries < 30 && results_.size() < count; ++tries) AddOp();
    std::string text = fmt::format("mesh {}\nfunc f(", mesh.ToString());
    const uint64_t pinned = Chance(50) ? 0 : 40;  // percent
    std::string updates;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const auto& [tensor, is_variable] = arguments_[i];
      text += fmt::format("{}{}%{}: {}{}", i > 0 ? ", " : "", is_variable ? "var " : "", tensor.name,
                          TypeOf(tensor.shape), Chance(pinned) ? PinText(mesh, tensor.shape) : "");
      if (!is_variable) continue;
      for (const Tensor& result : results_)
        if (updates.find(fmt::format("%{} =", tensor.name)) == std::string::npos &&
            result.shape == tensor.shape && Chance(50))
          updates += fmt::format("  update %{} = %{}\n", tensor.name, result.name);
    }
    text += ") {\n";
    std::string outputs;
    for (size_t r = 0; r < results_.size(); ++r) {
      const std::string& name = results_[r].name;
      const bool is_read = IsRead(name) || updates.find("= %" + name + "\n") != std::string::npos;
      if (!is_read || Chance(10)) outputs += fmt::format("{}o{}=%{}", outputs.empty() ? "" : ", ", r, name);
      if (Chance(pinned / 5))
        body_[lines_of_results_[r]] +=
            fmt::format(" : {}{}", TypeOf(results_[r].shape), PinText(mesh, results_[r].shape));
    }
    for (const std::string& line : body_) text += line + "\n";
    text += updates;
    if (!outputs.empty()) text += "  return " + outputs + "\n";
    return text + "}\n";
  }

  // Whether an op has the value as an operand.
  bool IsRead(const std::string& name) const {
    for (const std::string& line : body_) {
      const std::string operand = "%" + name;
      for (size_t at = line.find(operand, line.find('=')); at != std::string::npos;
           at = line.find(operand, at + 1)) {
        const size_t end = at + operand.size();
        if (end == line.size() || std::string_view(" ,\n").find(line[end]) != std::string_view::npos)
          return true;
      }
    }
    return false;
  }

  struct DrawnArgument {
    Tensor tensor;
    bool is_variable;
  };

  std::mt19937_64 engine_;
  const int64_t most_;
  std::vector<DrawnArgument> arguments_;
  std::vector<Tensor> values_, results_;  // arguments come in among the values only as operands
  std::vector<std::string> body_;
  std::vector<size_t> lines_of_results_;
};

}  // namespace meshwork
