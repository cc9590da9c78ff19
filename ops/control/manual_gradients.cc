#include "meshwork/ops/control/manual_gradients.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/pull_back.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ops/control/manual_ops.h"
#include "meshwork/ops/control/variation.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// Fits a term of a gradient to `target` before it is added to other terms. Over axes on which devices have
// `target` in common, the term is summed; over axes on which only `target` varies, the term is marked as
// varying.
Value AsVaries(const Value& target, const Value& term, Variation& variation) {
  const Mesh& mesh = term.graph()->mesh();
  const AxisSet want = variation.Of(target.id()), have = variation.Of(term.id());
  const SourceLocation& location = term.graph()->value(term.id()).location;
  if (const AxisSet more = have.Minus(want); !WithoutTrivial(mesh, more).empty())
    return AsVaries(target,
                    AddDeviceOp("device_all_reduce", term, more.ToList(), {{"op", ReduceOp::kSum}}, location),
                    variation);
  if (const AxisSet less = want.Minus(have); !WithoutTrivial(mesh, less).empty())
    return AddDeviceOp("device_vary", term, less.ToList(), {}, location);
  return term;
}

// Takes away the arguments that no output depends on, and the operands that they are given.
void DropUnread(const Graph& body, RegionParts& parts, Node& node) {
  std::vector<bool> read(body.values().size(), false);
  for (ValueId id : parts.outputs) read[id] = true;
  for (size_t n = body.nodes().size(); n-- > 0;) {
    const Node& inner = body.nodes()[n];
    if (std::none_of(inner.results.begin(), inner.results.end(), [&](ValueId id) { return read[id]; }))
      continue;
    for (ValueId id : inner.operands) read[id] = true;
  }
  for (size_t a = parts.arguments.size(); a-- > 0;) {
    if (read[parts.arguments[a].value]) continue;
    parts.arguments.erase(parts.arguments.begin() + static_cast<int64_t>(a));
    node.operands.erase(node.operands.begin() + static_cast<int64_t>(a));
  }
}

}  // namespace

absl::StatusOr<std::vector<Value>> ManualGradients(Graph& graph, int n,
                                                   const std::vector<Value>& result_grads,
                                                   const std::vector<bool>& needed) {
  const Node node = graph.nodes()[n];  // a copy: nodes are added
  std::vector<Value> grads(node.operands.size());
  Graph body = *node.regions[0];
  body.ClearOutputs();
  const Graph& forward = *node.regions[0];
  Node back{.row = node.row, .operands = node.operands, .location = node.location};
  RegionParts parts;
  std::vector<Value> values, cotangents, by;
  std::vector<size_t> wrt;  // operands
  for (size_t o = 0; o < node.operands.size(); ++o) {
    const ValueId id = body.arguments()[o].value;
    parts.arguments.push_back({.value = id, .type = body.value(id).type});
    if (!needed[o] || !IsFloat(body.value(id).type.dtype)) continue;
    by.emplace_back(&body, id);
    wrt.push_back(o);
  }
  if (wrt.empty()) return grads;
  for (size_t r = 0; r < result_grads.size(); ++r) {
    if (!result_grads[r].valid() || !IsFloat(result_grads[r].dtype())) continue;
    const ValueId id = forward.outputs()[r].value;
    const Node& block = forward.nodes()[forward.value(id).node];
    const Type type = body.value(id).type;
    std::string name = fmt::format("cotangent{}", body.arguments().size());
    while (body.FindArgument(name) >= 0) name += "_";
    const ValueId cotangent = body.AddArgument({.name = std::move(name),
                                                .type = type,
                                                .global = type,
                                                .layout = block.attrs.Get<LayoutPin>("layout").layout},
                                               false);
    values.emplace_back(&body, id);
    cotangents.emplace_back(&body, cotangent);
    parts.arguments.push_back({.value = cotangent, .type = type});
    back.operands.push_back(result_grads[r].id());
  }
  Variation variation(body);
  const std::vector<Value> found =
      PullBack(body, values, cotangents, by,
               [&](const Value& target, const Value& term) { return AsVaries(target, term, variation); });
  if (!body.errors().empty()) return absl::InvalidArgumentError(body.errors()[0]);
  for (size_t i = 0; i < found.size(); ++i) {
    const Type type = by[i].type();
    const Value grad = found[i].valid() ? found[i] : Constant(body, 0.0, type);
    parts.outputs.push_back(AddBlockOf(body, grad, *body.value(by[i].id()).layout, node.location));
  }
  DropUnread(body, parts, back);
  back.regions.push_back(std::make_shared<const Graph>(MakeRegion(body, parts)));
  MESHWORK_ASSIGN_OR_RETURN(const int added, TryAddControl(graph, std::move(back)));
  for (size_t i = 0; i < wrt.size(); ++i) grads[wrt[i]] = {&graph, graph.nodes()[added].results[i]};
  return grads;
}

std::optional<std::vector<Value>> OwnGradientsOver(const AxisList& axes, const Value& loss,
                                                   std::span<const Value> wrt, CallSite loc) {
  Variation variation(*loss.graph(), AxisSet(axes));
  const Value own = AddDeviceOp("device_vary", loss, axes, {}, loc);
  return ReachedGradients(own, wrt, loc, [&](const Value& target, const Value& term) {
    return AsVaries(target, term, variation);
  });
}

}  // namespace meshwork
