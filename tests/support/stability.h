// Whether results depend on rounding: a program is stable if its results hardly change when every computed
// number is off by a little, in every iteration of bodies, too. An exact tie, or a number at the corner of a
// function, makes it unstable, and so do gradients that grow.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "meshwork/ir/pull_back.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "support/interpreter.h"
#include "support/program_drawer.h"

namespace meshwork {

// The largest magnitude of any value except constants, in bodies too; infinity if one is infinite or NaN.
class LargestNumber {
 public:
  void See(const HostTensor& tensor) {
    for (double x : tensor.Numbers())
      largest_ = std::isfinite(x) ? std::max(largest_, std::abs(x)) : INFINITY;
  }
  NodeObserver observer() {
    return [this](const Node& node, const std::vector<HostTensor>&, const std::vector<HostTensor>& results) {
      if (node.row->name == "constant") return;  // an attribute; values computed from it are seen
      for (const HostTensor& result : results) See(result);
    };
  }
  double value() const { return largest_; }

 private:
  double largest_ = 0;
};

// Disturbs results that were rounded: reals that do not equal an element of an operand.
class Disturbance {
 public:
  static constexpr double kSize = 1e-9;

  explicit Disturbance(uint64_t seed) : engine_(seed) {}

  NodeObserver observer() {
    return
        [this](const Node& node, const std::vector<HostTensor>& operands, std::vector<HostTensor>& results) {
          if (IsControl(node) || !HasSlope(*node.row)) return;
          const bool reads_reals =
              std::any_of(operands.begin(), operands.end(),
                          [](const HostTensor& operand) { return operand.type().dtype == F64; });
          if (!reads_reals) return;
          for (HostTensor& result : results)
            if (result.type().dtype == F64) Move(node, operands, result);
        };
  }

 private:
  // Whether the node adds up numbers. A zero that another op gives is exact.
  static bool AddsUp(const Node& node) {
    return node.row->is_product || node.row->name == "add" || node.row->name == "sub" ||
           node.row->name == "reduce_sum" || node.row->name == "reduce_mean";
  }

  void Move(const Node& node, const std::vector<HostTensor>& operands, HostTensor& result) {
    std::set<double> exact;
    for (const HostTensor& operand : operands)
      for (double x : operand.Numbers()) exact.insert(x);
    if (!AddsUp(node)) exact.insert(0);
    std::vector<double> numbers = result.Numbers();
    for (double& x : numbers)
      if (std::isfinite(x) && !exact.contains(x))
        x += kSize * (static_cast<double>(engine_() >> 11) * 0x1p-52 - 1);
    result = HostTensor(result.type(), numbers);
  }

  std::mt19937_64 engine_;
};

// Reals are f64. No number of a stable program is above `most`.
inline bool IsStable(const RandomProgram& random, double most) {
  // A disturbance is as large as 10^7 roundings.
  constexpr double kMayMove = 1e-6;
  LargestNumber largest;
  const InterpretedStep right = Interpret(random.graph, random.feeds, largest.observer());
  if (!(largest.value() <= most)) return false;
  const auto is_near = [&](const std::map<std::string, HostTensor>& a,
                           const std::map<std::string, HostTensor>& b) {
    for (const auto& [name, tensor] : a) {
      const std::vector<double> x = tensor.Numbers(), y = b.at(name).Numbers();
      for (size_t i = 0; i < x.size(); ++i)
        if (!(std::abs(x[i] - y[i]) <= kMayMove * std::max(1.0, largest.value()))) return false;
    }
    return true;
  };
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Disturbance disturbance(seed);
    const InterpretedStep moved = Interpret(random.graph, random.feeds, disturbance.observer());
    if (!is_near(right.outputs, moved.outputs) || !is_near(right.variables, moved.variables)) return false;
  }
  return true;
}

}  // namespace meshwork
