#include "meshwork/tools/check/central_differences.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// The operands of the sample that are not real, drawn, among the others.
std::vector<Value> Operands(const Sample& sample, const std::vector<Value>& x) {
  Graph& g = *x[0].graph();
  std::vector<Value> operands;
  size_t next = 0;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    const Type& type = sample.operands[i];
    if (IsFloat(type.dtype)) {
      operands.push_back(x[next++]);
      continue;
    }
    const double low = type.dtype == BOOL ? -1 : static_cast<double>(sample.row->sample_int_low);
    const double high = type.dtype == BOOL ? 1 : static_cast<double>(sample.row->sample_int_high);
    const Value drawn = RandomUniform(g, {F64, type.shape}, 7, static_cast<int64_t>(i), low, high);
    operands.push_back(type.dtype == BOOL ? Greater(drawn, 0.0) : Cast(Floor(drawn), type.dtype));
  }
  return operands;
}

}  // namespace

std::optional<RealFunction> FunctionOfSample(const Sample& sample) {
  const OpRow& row = *sample.row;
  if (const AttrValue* dtype = sample.attrs.Find("dtype"); dtype && *dtype != AttrValue(F64))
    return std::nullopt;
  RealFunction function{.inputs = {}, .build = nullptr, .low = row.sample_low, .high = row.sample_high};
  std::vector<Type> types = sample.operands;
  for (Type& type : types) {
    if (!IsFloat(type.dtype)) continue;
    type.dtype = F64;
    function.inputs.push_back(type.shape);
  }
  const auto results = row.infer({types, {}, sample.attrs});
  if (function.inputs.empty() || !results.ok() ||
      std::none_of(results->begin(), results->end(), [](const Type& type) { return IsFloat(type.dtype); }))
    return std::nullopt;
  function.build = [sample](const std::vector<Value>& x) {
    const std::vector<Value> results =
        x[0].graph()->Add(sample.row->name, Operands(sample, x), sample.attrs, {});
    if (results.size() == 1) return results[0];
    Value sum;
    for (const Value& result : results) {
      if (!result.valid() || !IsFloat(result.dtype())) continue;
      sum = sum.valid() ? sum + WeightedSum(result) : WeightedSum(result);
    }
    return sum;
  };
  return function;
}

Value WeightedSum(const Value& y) {
  if (!y.valid()) return y;
  Graph& g = *y.graph();
  std::vector<int64_t> all;
  for (int64_t d = 0; d < y.rank(); ++d) all.push_back(d);
  const Value weights = RandomUniform(g, y.type(), /*seed=*/5, /*stream=*/0, -1, 2);
  return ReduceSum(Select(IsInf(y), 0.0, Mul(y, weights)), all);
}

absl::StatusOr<int64_t> TryGradient(const RealFunction& function, const OneDevice& device,
                                    std::vector<std::string>& findings) {
  Graph g{Mesh()};
  std::vector<Value> inputs;
  NamedNumbers feeds;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> draw(function.low, function.high);
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const Shape& shape = function.inputs[i];
    const std::string name = fmt::format("x{}", i);
    inputs.push_back(g.Input(name, F64, shape, LayoutSpec(shape.size(), UNSHARDED)));
    std::vector<double>& feed = feeds[name];  // of an empty input, too
    for (int64_t n = NumElements(shape); n > 0; --n) feed.push_back(draw(random));
  }
  const Value loss = WeightedSum(function.build(inputs));
  g.Output("loss", loss);
  MESHWORK_RETURN_IF_ERROR(g.status());
  const std::vector<Value> grads = Gradients(loss, inputs);
  for (size_t i = 0; i < grads.size(); ++i) g.Output(fmt::format("g{}", i), grads[i]);
  MESHWORK_RETURN_IF_ERROR(g.status());
  MESHWORK_ASSIGN_OR_RETURN(const RunOnce run, device(g));
  MESHWORK_ASSIGN_OR_RETURN(const NamedNumbers values, run(feeds));
  int64_t compared = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<double>& got = values.at(fmt::format("g{}", i));
    const std::string name = fmt::format("x{}", i);
    if (grads[i].type() != inputs[i].type() || got.size() != feeds[name].size()) {
      findings.push_back(fmt::format("the gradient by operand {} is {}; that operand is {}", i,
                                     grads[i].type().ToString(), inputs[i].type().ToString()));
      continue;
    }
    for (size_t e = 0; e < got.size(); ++e, ++compared) {
      constexpr double kStep = 1e-5;
      double slopes[2];  // over one step and two
      for (int steps : {1, 2}) {
        double ends[2];
        for (int end : {0, 1}) {
          NamedNumbers moved = feeds;
          moved[name][e] += (end == 0 ? -steps : steps) * kStep;
          MESHWORK_ASSIGN_OR_RETURN(const NamedNumbers there, run(moved));
          ends[end] = there.at("loss")[0];
        }
        slopes[steps - 1] = (ends[1] - ends[0]) / (2 * steps * kStep);
      }
      const double want = slopes[0];
      const double curved = std::abs(slopes[1] - want);  // thrice the error of `want`
      if (!(std::abs(got[e] - want) <= 1e-7 * std::max(1.0, std::abs(want)) + curved))
        findings.push_back(fmt::format("the gradient by element {} of operand {} is {:.6g}, the slope {:.6g}",
                                       e, i, got[e], want));
    }
  }
  return compared;
}

}  // namespace meshwork
