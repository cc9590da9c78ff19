// Gradients against central finite differences in double precision.
//
//   ExpectGradientIsRight({{{3, 4}, {4}}, [](const Xs& x) { return x[0] + x[1]; }});
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/gradients.h"
#include "ops/ops.h"
#include "support/interpreter.h"
#include "support/sample.h"

namespace meshwork {

using Numbers = std::vector<double>;
using Feeds = std::map<std::string, Numbers>;
using Xs = std::vector<Value>;

inline Value In(Graph& g, const std::string& name, const Shape& shape, DType dtype = F64) {
  return g.Input(name, dtype, shape, LayoutSpec(shape.size(), UNSHARDED));
}

// The sum of all elements of `y` times different weights, so that no element's gradient is like another's.
inline Value WeightedSum(const Value& y) {
  Graph& g = *y.graph();
  std::vector<int64_t> all;
  for (int64_t d = 0; d < y.rank(); ++d) all.push_back(d);
  const Value weights = RandomUniform(g, y.type(), /*seed=*/5, /*stream=*/0, -1, 2);
  return ReduceSum(Mul(y, weights), all);
}

// A function of f64 inputs of the given shapes.
struct Function {
  std::vector<Shape> inputs;
  std::function<Value(const Xs&)> build;
  double low = -1, high = 1;  // inputs are drawn from [low, high)
};

// Compares d WeightedSum(f) / d input with central differences, for every element of every input.
// Returns the names of the ops the function itself consists of.
inline std::set<std::string> ExpectGradientIsRight(const Function& function) {
  Graph g{Mesh()};
  std::vector<Value> inputs;
  Feeds feeds;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> draw(function.low, function.high);
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    inputs.push_back(In(g, name, function.inputs[i]));
    Numbers& feed = feeds[name];  // of an empty input, too
    for (int64_t n = NumElements(function.inputs[i]); n > 0; --n) feed.push_back(draw(random));
  }
  const Value y = function.build(inputs);
  std::set<std::string> ops;
  for (const Node& node : g.nodes()) ops.insert(std::string(node.row->name));
  const Value loss = WeightedSum(y);
  g.Output("loss", loss);
  const std::vector<Value> grads = Gradients(loss, inputs);
  EXPECT_TRUE(g.status().ok()) << g.status();
  if (!g.status().ok()) return ops;
  const std::vector<HostTensor> values = InterpretAll(g, feeds);
  auto loss_at = [&](const std::string& name, size_t i, double step) {
    Feeds moved = feeds;
    moved[name][i] += step;
    return InterpretAll(g, moved)[loss.id()].Number();
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(grads[i].type(), inputs[i].type());
    const Numbers got = values[grads[i].id()].Numbers();
    const std::string name = "x" + std::to_string(i);
    for (size_t e = 0; e < got.size(); ++e) {
      constexpr double kStep = 1e-5;
      auto slope = [&](double step) {
        return (loss_at(name, e, step) - loss_at(name, e, -step)) / (2 * step);
      };
      const double want = slope(kStep);
      const double curved = std::abs(slope(2 * kStep) - want);  // thrice the error of `want`
      EXPECT_NEAR(got[e], want, 1e-7 * std::max(1.0, std::abs(want)) + curved) << name << "[" << e << "]";
    }
  }
  return ops;
}

// The row as a function of the operands of a sample that are real, in f64; the others are drawn. Nothing if
// the result is not f64.
inline std::optional<Function> FunctionOfSample(const OpRow& row, std::string_view text) {
  const Sample sample = ParseSample(row, text).value();
  if (row.num_results != 1 || !IsFloat(sample.results[0].dtype)) return std::nullopt;
  if (const AttrValue* dtype = sample.attrs.Find("dtype"); dtype && *dtype != AttrValue(F64))
    return std::nullopt;
  Function function{.low = row.sample_low, .high = row.sample_high};
  for (const Type& type : sample.operands)
    if (IsFloat(type.dtype)) function.inputs.push_back(type.shape);
  if (function.inputs.empty()) return std::nullopt;
  function.build = [&row, sample](const Xs& x) {
    Graph& g = *x[0].graph();
    std::vector<Value> operands;
    size_t next = 0;
    for (size_t i = 0; i < sample.operands.size(); ++i) {
      const Type& type = sample.operands[i];
      if (IsFloat(type.dtype)) {
        operands.push_back(x[next++]);
        continue;
      }
      const double low = type.dtype == BOOL ? -1 : static_cast<double>(row.sample_int_low);
      const double high = type.dtype == BOOL ? 1 : static_cast<double>(row.sample_int_high);
      const Value drawn = RandomUniform(g, {F64, type.shape}, 7, static_cast<int64_t>(i), low, high);
      operands.push_back(type.dtype == BOOL ? Greater(drawn, 0.0) : Cast(Floor(drawn), type.dtype));
    }
    return g.Add(row.name, operands, sample.attrs, {})[0];
  };
  return function;
}

// As `first`, of which it is the gradient's weighted sum: for gradients of gradients.
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
  g.Output("grad", Gradients(ReduceSum(y, all), {{input}})[0]);
  return Interpret(g, {{"x", x}}).outputs.at("grad").Numbers();
}

}  // namespace meshwork
