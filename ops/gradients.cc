#include "ops/gradients.h"

#include <algorithm>

#include "base/status.h"
#include "ops/ops.h"
#include "ops/row.h"

namespace meshwork {
namespace {

// Which values depend on one of `wrt`; only their gradients are needed.
std::vector<bool> DependsOn(const Graph& graph, std::span<const Value> wrt) {
  std::vector<bool> depends(graph.values().size(), false);
  for (const Value& value : wrt) depends[value.id()] = true;
  for (const Node& node : graph.nodes()) {
    bool any = false;
    for (ValueId id : node.operands) any |= depends[id];
    for (ValueId id : node.results) depends[id] = depends[id] || (any && node.row->grad != nullptr);
  }
  return depends;
}

Value Accumulate(const Value& sum, const Value& term) {
  if (!term.valid()) return sum;
  return sum.valid() ? Add(sum, term) : term;
}

// Whether the op may gather, because its operands or its results may be gathered.
bool MayGather(const Graph& graph, const Node& node) {
  auto may = [&](ValueId id) { return graph.value(id).gather == Gathering::kAllowed; };
  return std::any_of(node.operands.begin(), node.operands.end(), may) ||
         std::any_of(node.results.begin(), node.results.end(), may);
}

}  // namespace

std::vector<Value> Gradients(const Value& loss, std::span<const Value> wrt, CallSite loc) {
  std::vector<Value> result(wrt.size());
  if (!loss.valid()) return result;
  Graph& graph = *loss.graph();
  auto fail = [&](std::string message) {
    graph.RecordError(fmt::format("Gradients ({}): {}", SourceLocation(loc).ToString(), message));
    return result;
  };
  if (loss.rank() != 0 || !IsFloat(loss.dtype()))
    return fail(
        fmt::format("the loss is {}; it must be a scalar f32[], f64[] or bf16[].", loss.type().ToString()));
  for (const Value& value : wrt) {
    if (!value.valid()) return result;
    if (value.graph() != &graph)
      return fail("a value to differentiate by belongs to another graph; name values of this one.");
    if (!IsFloat(value.dtype()))
      return fail(fmt::format("a value of {} has no gradient; only f32, f64 and bf16 have.",
                              value.type().ToString()));
  }
  const std::vector<bool> depends = DependsOn(graph, wrt);
  std::vector<Value> grads(graph.values().size());
  grads[loss.id()] = Constant(graph, 1.0, loss.type(), loc);
  for (int i = static_cast<int>(graph.nodes().size()); i-- > 0;) {
    const Node node = graph.nodes()[i];  // a copy: gradients append nodes
    if (node.row->grad == nullptr) continue;
    std::vector<Value> operands, results, result_grads;
    bool reached = false, needed = false;
    for (ValueId id : node.operands) {
      operands.emplace_back(&graph, id);
      needed |= depends[id];
    }
    for (ValueId id : node.results) {
      results.emplace_back(&graph, id);
      result_grads.push_back(grads[id]);
      reached |= grads[id].valid();
    }
    if (!reached || !needed) continue;
    const LocationScope scope(graph, node.location);
    const size_t before = graph.values().size();
    const std::vector<Value> terms =
        node.row->grad({operands, results, result_grads, node.attrs, node.location});
    if (MayGather(graph, node)) {
      for (const Value& grad : result_grads) AllowGather(grad);
      for (size_t id = before; id < graph.values().size(); ++id)
        AllowGather({&graph, static_cast<ValueId>(id)});
    }
    MESHWORK_CHECK(terms.size() == operands.size(), "gradient of {}", node.row->name);
    for (size_t o = 0; o < terms.size(); ++o) {
      if (depends[operands[o].id()]) grads[operands[o].id()] = Accumulate(grads[operands[o].id()], terms[o]);
    }
  }
  for (size_t i = 0; i < wrt.size(); ++i) {
    const Value& grad = grads[wrt[i].id()];
    result[i] = grad.valid() ? grad : Constant(graph, 0.0, wrt[i].type(), loc);
  }
  return result;
}

}  // namespace meshwork
