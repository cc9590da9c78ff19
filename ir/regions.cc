#include "meshwork/ir/regions.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/difference.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/row.h"

namespace meshwork {

bool IsManual(const Node& node) { return node.row->control == ControlKind::kManual; }
bool IsDeviceOp(const Node& node) { return node.row->kind == OpKind::kDevice; }

ControlShape ShapeOfControl(const Node& node) {
  ControlShape shape;
  if (node.row->control == ControlKind::kIf) {
    shape.first_argument = 1;
    return shape;
  }
  const Graph& body = *node.regions[0];
  for (const Argument& argument : body.arguments()) shape.carries += argument.is_variable;
  if (node.row->control != ControlKind::kScan) return shape;
  // A text may say any number; the row's inference refuses those that the body does not have.
  const auto up_to = [&](std::string_view attribute, size_t most) {
    return static_cast<int>(
        std::clamp<int64_t>(node.attrs.Get<int64_t>(attribute), 0, static_cast<int64_t>(most)));
  };
  shape.slices = up_to("slices", body.arguments().size());
  shape.sums = up_to("sums", body.outputs().size());
  shape.stacked = static_cast<int>(body.outputs().size()) - shape.sums;
  return shape;
}

absl::StatusOr<std::vector<Type>> InferControl(const Node& node, const std::vector<Type>& operands) {
  MESHWORK_CHECK(static_cast<int>(node.regions.size()) == node.row->num_regions, "{} of {}",
                 node.regions.size(), node.row->name);
  return node.row->infer_regions(node, operands);
}

absl::StatusOr<int> TryAddControl(Graph& graph, Node node) {
  auto fail = [&](const absl::Status& status) {
    return Annotate(status, graph.Describe(node.row->name, node.location) + ": ");
  };
  absl::StatusOr<Attrs> complete = Graph::CompleteAttrs(*node.row, node.attrs);
  if (!complete.ok()) return fail(complete.status());
  node.attrs = *std::move(complete);
  const absl::StatusOr<std::vector<Type>> types = InferControl(node, TypesOf(graph, node.operands));
  if (!types.ok()) return fail(types.status());
  std::vector<ValueInfo> infos;
  for (const Type& type : *types) {
    if (absl::Status status = CheckSize(type); !status.ok()) return fail(status);
    infos.push_back({.type = type, .global = type, .location = node.location});
  }
  return graph.AddNode(std::move(node), std::move(infos));
}

// ---- Local programs.

namespace {

std::string NameOf(const Graph& region, int argument) { return "%" + region.argument_name(argument); }

std::vector<FactorList> FactorsOf(const Layout& layout) {
  std::vector<FactorList> dims;
  for (int d = 0; d < layout.rank(); ++d) dims.push_back(layout.Factors(d, 1));
  return dims;
}

// The global type and the layout that result `r` must have according to one region.
struct Lies {
  Type global;
  Layout layout;
};

Lies WhereResultLies(const Node& node, const Graph& region, const ControlShape& shape, int r) {
  if (r < shape.carries) {
    const ValueInfo& carry = region.value(region.arguments()[r].value);
    return {carry.global, *carry.layout};
  }
  const ValueInfo& output = region.value(region.outputs()[r - shape.carries].value);
  Lies lies{output.global, *output.layout};
  if (r - shape.carries >= shape.stacked) return lies;
  lies.global.shape.insert(lies.global.shape.begin(), node.attrs.Get<int64_t>("length"));
  return {lies.global, StackedLayout(lies.layout)};
}

absl::Status CheckLies(std::string_view what, const Lies& want, const ValueInfo& have) {
  if (want.global == have.global && want.layout.WithoutTrivialAxes() == have.layout->WithoutTrivialAxes())
    return absl::OkStatus();
  return InvalidArgument("{} is {} {} outside of its body and {} {} inside.", what, have.global.ToString(),
                         have.layout->ToString(), want.global.ToString(), want.layout.ToString());
}

absl::Status CheckLocalRegion(const Graph& local, const Node& node, const Graph& region) {
  const ControlShape shape = ShapeOfControl(node);
  for (int a = 0; a < static_cast<int>(region.arguments().size()); ++a) {
    const ValueInfo& argument = region.value(region.arguments()[a].value);
    Lies lies{argument.global, *argument.layout};
    const ValueInfo& operand = local.value(node.operands[a + shape.first_argument]);
    if (a >= shape.carries && a < shape.carries + shape.slices) {
      lies.global.shape.insert(lies.global.shape.begin(), node.attrs.Get<int64_t>("length"));
      lies.layout = StackedLayout(lies.layout);
    }
    MESHWORK_RETURN_IF_ERROR(CheckLies("argument " + NameOf(region, a), lies, operand));
  }
  for (const VariableUpdate& update : region.updates()) {
    const ValueInfo& carry = region.value(region.arguments()[update.argument].value);
    MESHWORK_RETURN_IF_ERROR(CheckLies("the next value of " + NameOf(region, update.argument),
                                       {carry.global, *carry.layout}, region.value(update.value)));
  }
  for (size_t o = 0; o < region.outputs().size(); ++o) {
    const Layout& layout = *region.value(region.outputs()[o].value).layout;
    const bool is_sum = static_cast<int>(o) >= shape.stacked;
    if (layout.is_partial() &&
        (node.row->control != ControlKind::kScan || (is_sum && layout.partials()[0].op != ReduceOp::kSum)))
      return InvalidArgument("output {} of its body is {}; it must be reduced first.", o, layout.ToString());
  }
  for (const Node& inner : region.nodes())
    if (absl::Status status = CheckLocalNode(region, inner); !status.ok())
      return Annotate(status, fmt::format("{}: ", region.Describe(inner.row->name, inner.location)));
  return absl::OkStatus();
}

}  // namespace

Layout SliceLayout(const Layout& stacked) {
  std::vector<FactorList> dims = FactorsOf(stacked);
  dims.erase(dims.begin());
  return Layout::Strided(stacked.mesh(), dims, stacked.partials());
}

Layout StackedLayout(const Layout& slice) {
  std::vector<FactorList> dims = FactorsOf(slice);
  dims.insert(dims.begin(), FactorList{Factor{1, {}}});
  return Layout::Strided(slice.mesh(), dims, slice.partials());
}

absl::Status CheckLocalControl(const Graph& local, const Node& node) {
  MESHWORK_RETURN_IF_ERROR(InferControl(node, TypesOf(local, node.operands)).status());
  const ControlShape shape = ShapeOfControl(node);
  for (size_t o = 0; o < node.operands.size(); ++o)
    if (const Layout& layout = *local.value(node.operands[o]).layout;
        layout.is_partial() && !(static_cast<int>(o) < shape.carries && CarryMayOwe(node, layout.partials())))
      return InvalidArgument("operand {} is {}; it must be reduced first.", o, layout.ToString());
  for (const auto& region : node.regions) {
    MESHWORK_RETURN_IF_ERROR(CheckLocalRegion(local, node, *region));
    for (size_t r = 0; r < node.results.size(); ++r)
      MESHWORK_RETURN_IF_ERROR(CheckLies(fmt::format("result {}", r),
                                         WhereResultLies(node, *region, shape, static_cast<int>(r)),
                                         local.value(node.results[r])));
  }
  return absl::OkStatus();
}

bool CarryMayOwe(const Node& node, const PartialSet& owed) {
  return owed.empty() || (node.row->control == ControlKind::kScan && owed[0].op == ReduceOp::kSum);
}

bool SameRegions(const Node& a, const Node& b) {
  return std::equal(a.regions.begin(), a.regions.end(), b.regions.begin(), b.regions.end(),
                    [](const auto& x, const auto& y) { return x == y || FirstDifference(*x, *y).empty(); });
}

Graph WithRegions(const Graph& graph, const std::function<Graph(const Graph&)>& pass) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), IsControl)) return pass(graph);
  Graph copy = graph;
  for (size_t n = 0; n < graph.nodes().size(); ++n)
    if (!IsManual(graph.nodes()[n]))
      for (std::shared_ptr<const Graph>& region : copy.mutable_node(static_cast<int>(n)).regions)
        region = std::make_shared<const Graph>(WithRegions(*region, pass));
  return pass(copy);
}

// ---- Regions.

namespace {

std::vector<bool> NeededNodes(const Graph& body, const RegionParts& parts) {
  std::vector<bool> values(body.values().size(), false), nodes(body.nodes().size(), false);
  for (const VariableUpdate& update : parts.updates) values[update.value] = true;
  for (ValueId id : parts.outputs) values[id] = true;
  std::vector<bool> given(body.values().size(), false);
  for (const RegionParts::Part& part : parts.arguments)
    if (part.value != kNoValue) given[part.value] = true;
  for (size_t n = nodes.size(); n-- > 0;) {
    const Node& node = body.nodes()[n];
    nodes[n] = std::any_of(node.results.begin(), node.results.end(),
                           [&](ValueId id) { return values[id] && !given[id]; });
    if (!nodes[n]) continue;
    for (ValueId id : node.operands) values[id] = true;
  }
  return nodes;
}

}  // namespace

Graph MakeRegion(const Graph& body, const RegionParts& parts) {
  Graph region(body.mesh());
  region.name = "body";
  std::vector<ValueId> map(body.values().size(), kNoValue);
  for (const RegionParts::Part& part : parts.arguments) {
    ValueInfo info{.name = part.name, .type = part.type, .global = part.type};
    if (part.value != kNoValue) info = body.value(part.value);
    if (!part.name.empty()) info.name = part.name;
    const ValueId id = region.AddArgument(std::move(info), part.is_variable);
    if (part.value != kNoValue) map[part.value] = id;
  }
  const std::vector<bool> needed = NeededNodes(body, parts);
  for (size_t n = 0; n < needed.size(); ++n) {
    if (!needed[n]) continue;
    Node node = body.nodes()[n];
    std::vector<ValueInfo> infos;
    for (ValueId id : node.results) infos.push_back(body.value(id));
    for (ValueId& id : node.operands) {
      MESHWORK_CHECK(map[id] != kNoValue, "a region reads what is none of its arguments");
      id = map[id];
    }
    const int index = region.AddNode(std::move(node), std::move(infos));
    for (size_t r = 0; r < body.nodes()[n].results.size(); ++r) {
      ValueId& to = map[body.nodes()[n].results[r]];
      if (to == kNoValue) to = region.nodes()[index].results[r];
    }
  }
  for (const VariableUpdate& update : parts.updates) region.AddUpdate({update.argument, map[update.value]});
  for (ValueId id : parts.outputs) region.AddOutput({"", map[id]});
  return region;
}

}  // namespace meshwork
