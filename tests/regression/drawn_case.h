// A case of a class of public bug reports: a drawn program, numbers for its inputs, and the results that
// plain loops in double give.
//
//   DrawnCase c(seed, "a=3,b=4", F64);
//   const Value x = c.Input("x", {5, 7}, c.Numbers(35));
//   c.Output("y", ReduceMean(x, {0}), {7}, …);
//   EXPECT_EQ(c.Error(), "");
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "ops/apply.h"
#include "support/interpreter.h"
#include "support/program_drawer.h"
#include "support/program_trial.h"

namespace meshwork {

class DrawnCase {
 public:
  using Numbers = std::vector<double>;

  DrawnCase(uint64_t seed, std::string_view mesh, DType dtype)
      : engine_(seed), dtype_(dtype), random_{Graph(Mesh::Parse(mesh).value()), {}} {}

  Graph& graph() { return random_.graph; }
  DType dtype() const { return dtype_; }

  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  // Between -2 and 2, which every real dtype holds.
  Numbers DrawNumbers(int64_t count) {
    Numbers numbers;
    for (; count > 0; --count) numbers.push_back(static_cast<double>(Between(-32, 32)) / 16);
    return numbers;
  }
  Shape DrawShape(int64_t rank, int64_t most) {
    Shape shape;
    for (; rank > 0; --rank) shape.push_back(Between(1, most));
    return shape;
  }

  // Each axis of the mesh cuts a dim, or none; several may cut one.
  LayoutSpec DrawPins(int64_t rank) {
    std::vector<std::vector<std::string>> axes(static_cast<size_t>(rank));
    const Mesh& mesh = random_.graph.mesh();
    const int first = static_cast<int>(Below(mesh.num_axes()));  // in either order
    for (int i = 0; i < mesh.num_axes(); ++i)
      if (const int64_t d = Below(rank + 1); d < rank)
        axes[static_cast<size_t>(d)].push_back(mesh.axis((first + i) % mesh.num_axes()).name);
    LayoutSpec pins;
    for (const std::vector<std::string>& of_dim : axes)
      pins.push_back(of_dim.empty() ? DimSpec(UNSHARDED) : DimSpec(of_dim));
    return pins;
  }

  Value Input(const std::string& name, const Shape& shape, Numbers numbers, const LayoutSpec& pins) {
    random_.feeds[name] = std::move(numbers);
    return random_.graph.Input(name, dtype_, shape, pins);
  }
  Value Input(const std::string& name, const Shape& shape, Numbers numbers) {
    return Input(name, shape, std::move(numbers), DrawPins(std::ssize(shape)));
  }
  Value Indices(const std::string& name, const Shape& shape, Numbers numbers, const LayoutSpec& pins) {
    random_.feeds[name] = std::move(numbers);
    return random_.graph.Input(name, I32, shape, pins);
  }
  // `numbers`: the right result, in double.
  void Output(const std::string& name, const Value& value, const Shape& shape, const Numbers& numbers) {
    random_.graph.Output(name, value);
    if (value.valid()) expected_.step.outputs[name] = HostTensor({value.type().dtype, shape}, numbers);
    for (double number : numbers) expected_.scale = std::max(expected_.scale, std::abs(number));
  }

  // What is wrong, or "".
  std::string Error() {
    CpuBackend backend(2);
    for (const bool share : {true, false}) {
      const Trial trial = TryProgram(random_, expected_, backend, {}, {.share = share});
      if (!trial.error().empty()) return fmt::format("{}\n{}", trial.error(), PrintGraph(random_.graph));
    }
    return "";
  }

 private:
  std::mt19937_64 engine_;
  const DType dtype_;
  RandomProgram random_;
  Expected expected_;
};

}  // namespace meshwork
