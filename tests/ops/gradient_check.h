// Gradients against central finite differences in double precision.
//
//   ExpectGradientIsRight({{{3, 4}, {4}}, [](const Xs& x) { return x[0] + x[1]; }});
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/ops.h"
#include "meshwork/tools/check/central_differences.h"
#include "support/interpreter.h"
#include "support/sample.h"

namespace meshwork {

using Numbers = std::vector<double>;
using FedNumbers = std::map<std::string, Numbers>;
using Xs = std::vector<Value>;

inline Value In(Graph& g, const std::string& name, const Shape& shape, DType dtype = F64) {
  return g.Input(name, dtype, shape, LayoutSpec(shape.size(), UNSHARDED));
}
inline Value In(Graph& g, const std::string& name, const Type& type) {
  return In(g, name, type.shape, type.dtype);
}

// The numbers of y, in a graph whose only output is y.
inline Numbers ValueOf(const Value& y, const FedNumbers& feeds) {
  y.graph()->Output("y", y);
  return Interpret(*y.graph(), feeds).outputs.at("y").Numbers();
}

using Function = RealFunction;

// Programs run by the interpreter, node by node.
inline absl::StatusOr<RunOnce> OnInterpreter(const Graph& graph) {
  return RunOnce([&graph](const NamedNumbers& feeds) -> absl::StatusOr<NamedNumbers> {
    NamedNumbers outputs;
    for (const auto& [name, tensor] : Interpret(graph, feeds).outputs) outputs[name] = tensor.Numbers();
    return outputs;
  });
}

// Runs TryGradient. Returns the names of the ops of the function itself.
inline std::set<std::string> ExpectGradientIsRight(const Function& function) {
  Graph g{Mesh()};
  std::vector<Value> inputs;
  for (const Shape& shape : function.inputs)
    inputs.push_back(In(g, "x" + std::to_string(inputs.size()), shape));
  function.build(inputs);
  std::set<std::string> ops;
  for (const Node& node : g.nodes()) ops.insert(std::string(node.row->name));
  std::vector<std::string> findings;
  const absl::StatusOr<int64_t> compared = TryGradient(function, OnInterpreter, findings);
  EXPECT_TRUE(compared.ok()) << compared.status();
  EXPECT_THAT(findings, testing::IsEmpty());
  return ops;
}

// The row as a function, if finite differences of its samples show its gradient.
inline std::optional<Function> FunctionOfSample(const OpRow& row, std::string_view text) {
  // Matrices with independently drawn elements are seldom positive definite.
  if (row.num_results != 1 || row.name == "cholesky") return std::nullopt;
  return FunctionOfSample(ParseSample(row, text).value());
}

// The weighted sum of the gradient of `first`, as a function: for gradients of gradients.
inline Function GradientOf(Function first) {
  first.build = [build = first.build](const Xs& x) {
    const std::vector<Value> grads = Gradients(WeightedSum(build(x)), x);
    Value all = WeightedSum(grads[0]);
    for (size_t i = 1; i < grads.size(); ++i) all = all + WeightedSum(grads[i]);
    return all;
  };
  return first;
}

// d sum(y) / d x for one input x, as numbers.
inline Numbers GradientOfSum(const Type& type, const Numbers& x,
                             const std::function<Value(const Value&)>& build) {
  Graph g{Mesh()};
  const Value input = In(g, "x", type.shape, type.dtype);
  const Value y = build(input);
  std::vector<int64_t> all;
  for (int64_t d = 0; d < y.rank(); ++d) all.push_back(d);
  g.Output("grad", Gradients(ReduceSum(y, all), {input})[0]);
  return Interpret(g, {{"x", x}}).outputs.at("grad").Numbers();
}

}  // namespace meshwork
