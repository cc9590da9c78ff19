#include "meshwork/ir/pull_back.h"

#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/values.h"

namespace meshwork {
namespace {

bool IsReal(const Graph& graph, ValueId id) { return IsFloat(graph.value(id).type.dtype); }

// Whether the node has real results that may depend on real operands, but its row has no gradient.
bool LacksGradient(const Graph& graph, const Node& node) {
  const auto is_real = [&](ValueId id) { return IsReal(graph, id); };
  return node.row->grad == nullptr && !IsControl(node) &&
         std::any_of(node.results.begin(), node.results.end(), is_real);
}

// Per value, whether it depends on one of `wrt`; only the gradients of such values are needed.
std::vector<bool> DependsOn(const Graph& graph, std::span<const Value> wrt) {
  std::vector<bool> depends(graph.values().size(), false);
  for (const Value& value : wrt) depends[value.id()] = true;
  for (const Node& node : graph.nodes()) {
    bool any = false;
    const bool lacks = LacksGradient(graph, node);
    for (ValueId id : node.operands) any |= depends[id] && (!lacks || IsReal(graph, id));
    const bool passes = MayHaveSlope(graph, node);
    for (ValueId id : node.results) depends[id] = depends[id] || (any && passes);
  }
  return depends;
}

Value Accumulate(const Value& sum, const Value& term) {
  return sum.valid() ? AddOp("add", {sum, term}) : term;
}

// Whether the op may gather, because its operands or its results may be gathered.
bool MayGather(const Graph& graph, const Node& node) {
  auto may = [&](ValueId id) { return graph.value(id).gather == Gathering::kAllowed; };
  return std::any_of(node.operands.begin(), node.operands.end(), may) ||
         std::any_of(node.results.begin(), node.results.end(), may);
}

// The gradients of the operands of one node. Errors: the row has no gradient although it must have one, or it
// gives another number of gradients than operands.
absl::StatusOr<std::vector<Value>> GradientsOf(Graph& graph, int n, const std::vector<Value>& operands,
                                               const std::vector<Value>& results,
                                               const std::vector<Value>& result_grads,
                                               const std::vector<bool>& depends) {
  const Node node = graph.nodes()[n];  // a copy: gradients append nodes
  if (IsControl(node)) {
    std::vector<bool> needed;
    for (ValueId id : node.operands) needed.push_back(depends[id]);
    return node.row->grad_regions(graph, n, result_grads, needed);
  }
  if (node.row->grad == nullptr)
    return InvalidArgument(
        "it has no gradient, and the loss depends on what it is given; put stop_gradient (StopGradient) "
        "before or behind it, or give its row a gradient (OpRow::grad), ZeroGradient if it is flat.");
  std::vector<Value> grads = node.row->grad({operands, results, result_grads, node.attrs, node.location});
  if (grads.size() != operands.size())
    return InvalidArgument(
        "it has {}, and its row's gradient gives {}; one for each, invalid where there is none.",
        Count(std::ssize(operands), "operand"), grads.size());
  return grads;
}

}  // namespace

std::vector<Value> PullBack(Graph& graph, std::span<const Value> values, std::span<const Value> cotangents,
                            std::span<const Value> wrt, const AdjustTerm& adjust) {
  const std::vector<bool> depends = DependsOn(graph, wrt);
  std::vector<Value> grads(graph.values().size());
  const int nodes =
      static_cast<int>(graph.nodes().size());  // what is added up below is no part of the way back
  auto add = [&](const Value& target, const Value& term) {
    if (!term.valid()) return;
    Value& sum = grads[target.id()];
    sum = Accumulate(sum, adjust == nullptr ? term : adjust(target, term));
  };
  for (size_t i = 0; i < values.size(); ++i) add(values[i], cotangents[i]);
  for (int i = nodes; i-- > 0;) {
    const Node node = graph.nodes()[i];  // a copy: gradients append nodes
    const bool lacks = LacksGradient(graph, node);
    if (!MayHaveSlope(graph, node)) continue;
    std::vector<Value> operands, results, result_grads;
    bool reached = false, needed = false;
    for (ValueId id : node.operands) {
      operands.emplace_back(&graph, id);
      needed |= depends[id] && (!lacks || IsReal(graph, id));
    }
    for (ValueId id : node.results) {
      results.emplace_back(&graph, id);
      result_grads.push_back(grads[id]);
      reached |= grads[id].valid();
    }
    if (!reached || !needed) continue;
    const LocationScope scope(graph, node.location);
    const size_t before = graph.values().size();
    const absl::StatusOr<std::vector<Value>> terms =
        GradientsOf(graph, i, operands, results, result_grads, depends);
    if (!terms.ok()) {
      graph.RecordError(graph.Describe(node.row->name, node.location) + ": " +
                        std::string(MessageOf(terms.status())));
      continue;
    }
    if (MayGather(graph, node)) {
      for (const Value& grad : result_grads) MayBeGathered(grad);
      for (size_t id = before; id < graph.values().size(); ++id)
        MayBeGathered({&graph, static_cast<ValueId>(id)});
    }
    for (size_t o = 0; o < terms->size(); ++o)
      if (depends[operands[o].id()]) add(operands[o], (*terms)[o]);
  }
  std::vector<Value> result;
  for (const Value& value : wrt) result.push_back(grads[value.id()]);
  return result;
}

bool HasSlope(const OpRow& row) { return row.grad != nullptr && row.grad != ZeroGradient; }

bool MayHaveSlope(const Graph& graph, const Node& node) {
  return IsControl(node) || HasSlope(*node.row) || LacksGradient(graph, node);
}

std::optional<std::vector<Value>> ReachedGradients(const Value& loss, std::span<const Value> wrt,
                                                   CallSite loc, const AdjustTerm& adjust) {
  if (!loss.valid()) return std::nullopt;
  Graph& graph = *loss.graph();
  auto fail = [&](std::string message) {
    graph.RecordError(fmt::format("Gradients ({}): {}", SourceLocation(loc).ToString(), message));
    return std::nullopt;
  };
  if (loss.rank() != 0 || !IsFloat(loss.dtype()))
    return fail(fmt::format("the loss is {}; it must be a scalar f32[], f64[] or bf16[]: {}.",
                            loss.type().ToString(),
                            IsFloat(loss.dtype()) ? "take its ReduceMean" : "Cast it"));
  for (const Value& value : wrt) {
    if (!value.valid()) return std::nullopt;
    if (value.graph() != &graph)
      return fail("a value to differentiate by belongs to another graph; name values of this one.");
    if (!IsFloat(value.dtype()))
      return fail(fmt::format("a value of {} has no gradient; only f32, f64 and bf16 have.",
                              value.type().ToString()));
  }
  const Value one = graph.Add(
      "constant", {}, {{"value", 1.0}, {"dtype", loss.dtype()}, {"shape", ToInts(loss.shape())}}, loc)[0];
  const size_t mistakes = graph.errors().size();
  std::vector<Value> grads = PullBack(graph, {&loss, 1}, {&one, 1}, wrt, adjust);
  if (graph.errors().size() > mistakes) return std::nullopt;
  return grads;
}

}  // namespace meshwork
