#include "meshwork/train/optim/averages.h"

#include <map>
#include <string_view>

#include "meshwork/base/status.h"
#include "meshwork/ir/name_scope.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/initializers.h"

namespace meshwork {
namespace {

// The values of the variables after the step.
std::map<ValueId, Value> NewValues(Graph& graph) {
  std::map<ValueId, Value> values;
  for (const VariableUpdate& update : graph.updates())
    values.emplace(graph.arguments()[update.argument].value, Value(&graph, update.value));
  return values;
}

std::vector<Value> UpdatedWeights(Graph& graph) {
  std::vector<Value> weights;
  const std::map<ValueId, Value> updated = NewValues(graph);
  for (const Argument& argument : graph.arguments())
    if (argument.is_variable && argument.is_trainable && updated.contains(argument.value) &&
        IsFloat(graph.value(argument.value).type.dtype))
      weights.emplace_back(&graph, argument.value);
  return weights;
}

absl::Status Check(const AverageOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckDecay("decay", options.decay));
  if (IsArgumentName(options.name)) return absl::OkStatus();
  return InvalidArgument("name=\"{}\" cannot begin the names of variables; take letters, digits and _ . / -.",
                         options.name);
}

// Why this variable cannot be averaged.
absl::Status CheckWeight(const Graph& graph, const Value& variable, const std::map<ValueId, Value>& updated) {
  const ValueInfo& info = graph.value(variable.id());
  if (!IsFloat(info.type.dtype))
    return InvalidArgument("\"{}\" is {}; averages are of f32, f64 and bf16.", info.name,
                           info.type.ToString());
  if (updated.contains(variable.id())) return absl::OkStatus();
  return InvalidArgument("\"{}\" is not updated; minimize first, and average what that has updated.",
                         info.name);
}

}  // namespace

std::vector<Variable> AverageWeights(Graph& graph, const AverageOptions& options, CallSite loc) {
  const std::vector<Value> weights = UpdatedWeights(graph);
  if (!weights.empty()) return AverageWeights(weights, options, loc);
  if (!graph.status().ok()) return {};  // why nothing is updated is recorded already
  graph.RecordError(fmt::format("{}: the graph updates no trainable variable; minimize first.",
                                graph.Describe("AverageWeights", loc)));
  return {};
}

std::vector<Variable> AverageWeights(const ValueList& variables, const AverageOptions& options,
                                     CallSite loc) {
  const std::span<const Value> weights = variables.values();
  if (weights.empty() || !weights[0].valid()) return {};
  Graph& graph = *weights[0].graph();
  const std::map<ValueId, Value> updated = NewValues(graph);
  absl::Status status = Check(options);
  for (const Value& weight : weights) {
    if (!weight.valid()) return {};  // its mistake is recorded already
    if (weight.graph() != &graph) status.Update(InvalidArgument("the variables belong to several graphs."));
    else status.Update(CheckWeight(graph, weight, updated));
  }
  if (!status.ok()) {
    graph.RecordError(fmt::format("{}: {}", graph.Describe("AverageWeights", loc), MessageOf(status)));
    return {};
  }
  const LocationScope scope(graph, loc);
  const NameScope none = NameScope::None(graph);
  const VarOptions state{.trainable = false};
  const Variable steps = graph.Var(options.name + "/step", Zeros({}, I64), {}, state, loc);
  const Value step = steps + 1.0;
  graph.Update(steps, step, loc);
  const Value t = Cast(step, F64);
  Value decay = Select(Equal(step, 1.0), Constant(graph, 0.0, {F64, {}}), options.decay);
  if (options.warm_up) decay = Minimum(decay, (t + 1.0) / (t + 10.0));
  std::vector<Variable> averages;
  for (const Value& weight : weights) {
    const ValueInfo info = graph.value(weight.id());
    const auto declare = [&](std::string_view prefix, DType dtype) {
      return graph.Var(fmt::format("{}/{}{}", options.name, prefix, info.name), Zeros(info.type.shape, dtype),
                       SpecOf(*info.layout), state, loc);
    };
    const Variable average = declare("", info.type.dtype);
    // In bf16 what a step adds would be lost: it is smaller than half a digit of the average.
    const DType wide = WideDType(info.type.dtype);
    const Variable kept = wide == info.type.dtype ? average : declare("wide/", wide);
    const Value keep = InDType(decay, wide);
    const Value next = kept * keep + InDType(updated.at(weight.id()), wide) * (1.0 - keep);
    graph.Update(kept, next, loc);
    if (kept.id() != average.id()) graph.Update(average, InDType(next, info.type.dtype), loc);
    averages.push_back(average);
  }
  return averages;
}

}  // namespace meshwork
