// Gradients against central finite differences in double precision.
//
//   std::vector<std::string> findings;
//   TryGradient({{{3, 4}, {4}}, [](const std::vector<Value>& x) { return x[0] * x[1]; }}, device, findings);
//
// The caller says how programs run: this room runs none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/sample.h"

namespace meshwork {

// A function of f64 inputs of the given shapes.
struct RealFunction {
  std::vector<Shape> inputs;
  std::function<Value(const std::vector<Value>& x)> build;
  double low = -1, high = 1;  // inputs are drawn from [low, high)
};

// The row as a function of a sample's real operands, in f64; the other operands are drawn. If there are
// several results, the function is the WeightedSum of the real ones. Nothing if the op takes no f64, or gives
// none.
std::optional<RealFunction> FunctionOfSample(const Sample& sample);

// The sum of all elements of `y` times different weights, so that no two elements have the same gradient.
// Infinite elements, such as a maximum of no elements, are left out.
Value WeightedSum(const Value& y);

// Elements by the name of an input or output, as doubles.
using NamedNumbers = std::map<std::string, std::vector<double>>;
// Runs a program on one device: its outputs for these inputs.
using RunOnce = std::function<absl::StatusOr<NamedNumbers>(const NamedNumbers& feeds)>;
// Prepares a program to be run; the graph outlives the returned function.
using OneDevice = std::function<absl::StatusOr<RunOnce>(const Graph& graph)>;

// Compares d WeightedSum(f) / d input with central differences, for every element of every input, and adds a
// line to `findings` for each that differs. Returns the number of elements. Errors: those of the builders, of
// Gradients and of `device`.
absl::StatusOr<int64_t> TryGradient(const RealFunction& function, const OneDevice& device,
                                    std::vector<std::string>& findings);

}  // namespace meshwork
