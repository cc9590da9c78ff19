#include "meshwork/ir/gradients.h"

#include <optional>
#include <span>

#include "meshwork/ir/builder.h"
#include "meshwork/ir/pull_back.h"
#include "meshwork/ir/row.h"

namespace meshwork {

std::vector<Value> ZeroGradient(const GradView& view) { return std::vector<Value>(view.operands.size()); }

std::vector<Value> GradientOfForm(
    const GradView& view, const std::function<std::vector<Value>(const std::vector<Value>& operands)>& form) {
  Graph& graph = *view.operands[0].graph();
  // Separate values, at which the backward pass ends: one operand may depend on another.
  std::vector<Value> operands, wrt, values, cotangents;
  for (const Value& x : view.operands) {
    operands.push_back(IsFloat(x.dtype()) ? AddOp("reshape", {x}, {{"shape", ToInts(x.shape())}}) : x);
    if (IsFloat(x.dtype())) wrt.push_back(operands.back());
  }
  const std::vector<Value> results = form(operands);
  for (size_t r = 0; r < results.size(); ++r) {
    if (!view.result_grads[r].valid()) continue;
    values.push_back(results[r]);
    cotangents.push_back(view.result_grads[r]);
  }
  const std::vector<Value> found = PullBack(graph, values, cotangents, wrt);
  std::vector<Value> grads;
  size_t next = 0;
  for (const Value& x : view.operands) grads.push_back(IsFloat(x.dtype()) ? found[next++] : Value());
  return grads;
}

std::vector<Value> Gradients(const Value& loss, const ValueList& list, CallSite loc) {
  const std::span<const Value> wrt = list.values();
  std::optional<std::vector<Value>> grads = ReachedGradients(loss, wrt, loc);
  if (!grads.has_value()) return std::vector<Value>(wrt.size());
  for (size_t i = 0; i < wrt.size(); ++i)
    if (!(*grads)[i].valid())
      (*grads)[i] = loss.graph()->Add(
          "constant", {}, {{"value", 0.0}, {"dtype", wrt[i].dtype()}, {"shape", ToInts(wrt[i].shape())}},
          loc)[0];
  return *std::move(grads);
}

}  // namespace meshwork
