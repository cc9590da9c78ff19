// The manual region and the ops that only its body has; their builders, checks and gradients.
#include "meshwork/control/manual.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/control/body_builder.h"
#include "meshwork/control/families.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

const AxisList& AxesOf(const Attrs& attrs) { return attrs.Get<AxisList>("axes"); }

AxisSet WithoutTrivial(const Mesh& mesh, AxisSet axes) {
  for (int axis : axes.ToList())
    if (mesh.axis(axis).size == 1) axes.Remove(axis);
  return axes;
}

// ---- Rows.

absl::StatusOr<std::vector<Type>> InferIndex(const OpView&) { return std::vector<Type>{{I64, {}}}; }
absl::StatusOr<std::vector<Type>> InferSame(const OpView& view) {
  return std::vector<Type>{view.operands[0]};
}

absl::StatusOr<std::vector<Type>> InferAllReduce(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckReduction(view.attrs.Get<ReduceOp>("op"), view.operands[0]));
  return std::vector<Type>{view.operands[0]};
}

absl::StatusOr<int64_t> CountOf(const Attrs& attrs) {
  const auto count = attrs.Get<int64_t>("count");
  if (count < 1) return InvalidArgument("count={}; it is the number of devices of its axes.", count);
  return count;
}

// size · count; what no tensor has, so that CheckSize refuses it, where 64 bits do not hold that.
int64_t Times(int64_t size, int64_t count) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return size > 0 && count > kMost / size ? kMost : size * count;
}

// The dim grows by the number of devices.
absl::Status Gather(std::string_view attribute, const Attrs& attrs, Type& type) {
  const int64_t dim = attrs.Get<int64_t>(attribute);
  MESHWORK_RETURN_IF_ERROR(CheckDim(attribute, dim, type));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t count, CountOf(attrs));
  type.shape[dim] = Times(type.shape[dim], count);
  return CheckSize(type);
}

// The dim is cut into one block per device.
absl::Status Cut(std::string_view attribute, const Attrs& attrs, Type& type) {
  const int64_t dim = attrs.Get<int64_t>(attribute);
  MESHWORK_RETURN_IF_ERROR(CheckDim(attribute, dim, type));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t count, CountOf(attrs));
  if (type.shape[dim] % count != 0)
    return InvalidArgument("{}={} of {}: {} devices do not divide {}.", attribute, dim, type.ToString(),
                           count, type.shape[dim]);
  type.shape[dim] /= count;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferAllGather(const OpView& view) {
  Type type = view.operands[0];
  MESHWORK_RETURN_IF_ERROR(Gather("dim", view.attrs, type));
  return std::vector<Type>{type};
}

absl::StatusOr<std::vector<Type>> InferReduceScatter(const OpView& view) {
  Type type = view.operands[0];
  MESHWORK_RETURN_IF_ERROR(CheckReduction(view.attrs.Get<ReduceOp>("op"), type));
  MESHWORK_RETURN_IF_ERROR(Cut("dim", view.attrs, type));
  return std::vector<Type>{type};
}

absl::StatusOr<std::vector<Type>> InferAllToAll(const OpView& view) {
  Type type = view.operands[0];
  if (view.attrs.Get<int64_t>("from") == view.attrs.Get<int64_t>("to"))
    return InvalidArgument("from and to are both {}; blocks move from one dim to another.",
                           view.attrs.Get<int64_t>("from"));
  MESHWORK_RETURN_IF_ERROR(Cut("to", view.attrs, type));
  MESHWORK_RETURN_IF_ERROR(Gather("from", view.attrs, type));
  return std::vector<Type>{type};
}

absl::StatusOr<std::vector<Type>> InferShift(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CountOf(view.attrs).status());
  constexpr int64_t kMost = int64_t{1} << 40;
  if (const int64_t by = view.attrs.Get<int64_t>("by"); by < -kMost || by > kMost)
    return InvalidArgument("by={} is beyond 2^40, the most devices there can be.", by);
  return std::vector<Type>{view.operands[0]};
}

// A node among the devices of `axes`.
Value AddDeviceOp(std::string_view op, const Value& x, const AxisList& axes, Attrs attrs,
                  const SourceLocation& location) {
  Graph& graph = *x.graph();
  attrs.Set("axes", axes);
  for (const AttrSpec& spec : GetOp(op).attrs)
    if (spec.name == "count") attrs.Set("count", graph.mesh().GroupSize(axes));
  return graph.Add(op, {{x}}, attrs, location)[0];
}

std::vector<Value> NoGradient(const GradView& view, std::string_view op) {
  Graph& graph = *view.operands[0].graph();
  graph.RecordError(fmt::format("{}: by {} it has no gradient; stop the gradient before it.",
                                graph.Describe(op, view.location),
                                ReduceOpName(view.attrs.Get<ReduceOp>("op"))));
  return {{}};
}

std::vector<Value> AllReduceGrad(const GradView& view) {
  const Value &x = view.operands[0], &y = view.results[0], &g = view.result_grads[0];
  const auto op = view.attrs.Get<ReduceOp>("op");
  if (op == ReduceOp::kSum) return {g};
  if (op != ReduceOp::kMax && op != ReduceOp::kMin) return NoGradient(view, "device_all_reduce");
  // Devices that hold the extremum share what comes back.
  const Value is_extreme = Cast(Equal(x, y), x.dtype());
  const Value holders = AddDeviceOp("device_all_reduce", is_extreme, AxesOf(view.attrs),
                                    {{"op", ReduceOp::kSum}}, view.location);
  return {Mul(is_extreme, Div(g, holders))};
}

std::vector<Value> AllGatherGrad(const GradView& view) {
  const Value &x = view.operands[0], &g = view.result_grads[0];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  const AxisList& axes = AxesOf(view.attrs);
  Graph& graph = *g.graph();
  // A sum that is cut at once is a reduce-scatter.
  if (const int n = graph.value(g.id()).node; n >= 0) {
    const Node& node = graph.nodes()[n];
    if (node.row->name == "device_all_reduce" && AxesOf(node.attrs) == axes &&
        node.attrs.Get<ReduceOp>("op") == ReduceOp::kSum)
      return {AddDeviceOp("device_reduce_scatter", {&graph, node.operands[0]}, axes,
                          {{"dim", dim}, {"op", ReduceOp::kSum}}, view.location)};
  }
  const Value index = graph.Add("device_index", {}, {{"axes", axes}}, view.location)[0];
  const Value start = Reshape(Mul(index, static_cast<double>(x.shape()[dim])), {1});
  return {DynamicSlice(g, start, {dim}, {x.shape()[dim]})};
}

std::vector<Value> ReduceScatterGrad(const GradView& view) {
  if (view.attrs.Get<ReduceOp>("op") != ReduceOp::kSum) return NoGradient(view, "device_reduce_scatter");
  return {AddDeviceOp("device_all_gather", view.result_grads[0], AxesOf(view.attrs),
                      {{"dim", view.attrs.Get<int64_t>("dim")}}, view.location)};
}

std::vector<Value> AllToAllGrad(const GradView& view) {
  return {AddDeviceOp("device_all_to_all", view.result_grads[0], AxesOf(view.attrs),
                      {{"from", view.attrs.Get<int64_t>("to")}, {"to", view.attrs.Get<int64_t>("from")}},
                      view.location)};
}

std::vector<Value> ShiftGrad(const GradView& view) {
  return {AddDeviceOp("device_shift", view.result_grads[0], AxesOf(view.attrs),
                      {{"by", -view.attrs.Get<int64_t>("by")}}, view.location)};
}

std::vector<Value> SameGrad(const GradView& view) { return {view.result_grads[0]}; }

absl::StatusOr<std::vector<Type>> InferNothing(const OpView&) {
  return InvalidArgument("it has a body; write it with manual::Region.");
}

}  // namespace

std::span<const OpRow> ManualOps() {
  const AttrSpec axes{"axes", AttrKind::kAxes}, count{"count", AttrKind::kInt}, dim{"dim", AttrKind::kInt},
      op{"op", AttrKind::kReduceOp};
  static const auto* rows = new std::vector<OpRow>{
      {.name = kManualOp,
       .doc = "runs its body on each device by itself, on the blocks that the layouts of its arguments cut",
       .num_operands = -1,
       .num_results = -1,
       .kind = OpKind::kControl,
       .control = ControlKind::kManual,
       .num_regions = 1,
       .infer = InferNothing,
       .infer_regions = InferManual,
       .grad_regions = ManualGradients},
      {.name = "device_index",
       .doc = "the number of the device among those of axes",
       .num_operands = 0,
       .kind = OpKind::kDevice,
       .attrs = {axes},
       .infer = InferIndex},
      {.name = "device_all_reduce",
       .doc = "x combined over the devices of axes",
       .kind = OpKind::kDevice,
       .collective = CollectiveKind::kAllReduce,
       .attrs = {axes, op},
       .infer = InferAllReduce,
       .grad = AllReduceGrad},
      {.name = "device_all_gather",
       .doc = "the blocks of the devices of axes, one after the other along dim",
       .kind = OpKind::kDevice,
       .collective = CollectiveKind::kAllGather,
       .attrs = {axes, dim, count},
       .infer = InferAllGather,
       .grad = AllGatherGrad},
      {.name = "device_reduce_scatter",
       .doc = "the device's block along dim of x combined over the devices of axes",
       .kind = OpKind::kDevice,
       .collective = CollectiveKind::kReduceScatter,
       .attrs = {axes, dim, op, count},
       .infer = InferReduceScatter,
       .grad = ReduceScatterGrad},
      {.name = "device_all_to_all",
       .doc = "blocks along dim `to` go to the devices of axes, those that come lie along dim `from`",
       .kind = OpKind::kDevice,
       .collective = CollectiveKind::kAllToAll,
       .attrs = {axes, {"from", AttrKind::kInt}, {"to", AttrKind::kInt}, count},
       .infer = InferAllToAll,
       .grad = AllToAllGrad},
      {.name = "device_shift",
       .doc = "the x of the device `by` before this one, in a ring of those of axes",
       .kind = OpKind::kDevice,
       .attrs = {axes, {"by", AttrKind::kInt}, count},
       .infer = InferShift,
       .grad = ShiftGrad},
      {.name = "device_vary",
       .doc = "x, as a value that may differ between the devices of axes",
       .kind = OpKind::kDevice,
       .attrs = {axes},
       .infer = InferSame,
       .grad = SameGrad},
      {.name = "device_block",
       .doc = "x, as the device's block of a result that lies so",
       .kind = OpKind::kDevice,
       .attrs = {{"layout", AttrKind::kLayout}},
       .infer = InferSame,
       .grad = SameGrad},
  };
  return *rows;
}

// ---- What varies.

AxisSet Variation::Of(ValueId id) {
  axes_.resize(body_.values().size());
  if (nodes_ == 0)
    for (const Argument& argument : body_.arguments())
      axes_[argument.value] = body_.value(argument.value).layout->ShardedAxes();
  for (; nodes_ < body_.nodes().size(); ++nodes_) {
    const Node& node = body_.nodes()[nodes_];
    AxisSet axes;
    for (ValueId operand : node.operands) axes = axes.Union(axes_[operand]);
    if (IsDeviceOp(node) && node.attrs.Find("axes") != nullptr) {
      const AxisSet own(AxesOf(node.attrs));
      const bool is_one = node.row->name == "device_all_reduce" || node.row->name == "device_all_gather";
      // In a ring over several axes what differs on one of them differs on all.
      const bool differs =
          node.row->name != "device_shift" || WithoutTrivial(body_.mesh(), axes).Intersects(own);
      if (is_one) axes = axes.Minus(own);
      else if (differs) axes = axes.Union(own);
    }
    for (ValueId result : node.results) axes_[result] = axes;
  }
  return axes_[id];
}

// ---- Checks.

namespace {

// How a pin of a region cuts a tensor of blocks, and the tensor. Errors: it cuts none evenly, or is no plain
// whole layout.
absl::StatusOr<Type> WholeOf(const LayoutPin& pin, const Type& block) {
  const Layout& layout = pin.layout;
  if (!pin.is_locked() || layout.is_strided() || layout.is_partial())
    return InvalidArgument("layout {}: a manual region wants every dim named by its axes or _.",
                           pin.ToString());
  if (layout.rank() != block.rank())
    return InvalidArgument("layout {} has {}, {} has {}; give one entry per dim.", pin.ToString(),
                           Count(layout.rank(), "dim"), block.ToString(), block.rank());
  Type whole = block;
  for (int d = 0; d < layout.rank(); ++d) whole.shape[d] = Times(whole.shape[d], layout.NumShards(d));
  MESHWORK_RETURN_IF_ERROR(CheckSize(whole));
  return whole;
}

std::string NamesOf(const Mesh& mesh, AxisSet axes) { return mesh.AxesToString(axes.ToList()); }

absl::Status CheckDeviceOp(const Graph& body, const Node& node, Variation& variation) {
  const Mesh& mesh = body.mesh();
  const AttrValue* axes = node.attrs.Find("axes");
  if (axes == nullptr) return absl::OkStatus();
  const AxisSet own(std::get<AxisList>(*axes));
  const AttrValue* count = node.attrs.Find("count");
  const int64_t devices = mesh.GroupSize(std::get<AxisList>(*axes));
  if (count != nullptr && std::get<int64_t>(*count) != devices)
    return InvalidArgument("count={}, and {} has {}.", std::get<int64_t>(*count), NamesOf(mesh, own),
                           Count(devices, "device"));
  const AttrValue* op = node.attrs.Find("op");
  if (op == nullptr ||
      (std::get<ReduceOp>(*op) != ReduceOp::kSum && std::get<ReduceOp>(*op) != ReduceOp::kProd))
    return absl::OkStatus();
  const AxisSet same = WithoutTrivial(mesh, own.Minus(variation.Of(node.operands[0])));
  if (same.empty()) return absl::OkStatus();
  return InvalidArgument(
      "the operand is the same on all devices of {}, and would be counted as often as there are devices; "
      "leave the axes out, or say that it may differ by manual::Vary.",
      NamesOf(mesh, same));
}

// Whether the node's result is returned, and nothing else.
bool IsReturned(const Graph& body, const Node& node) {
  const ValueId id = node.results[0];
  for (const Node& other : body.nodes())
    if (std::find(other.operands.begin(), other.operands.end(), id) != other.operands.end()) return false;
  return std::any_of(body.outputs().begin(), body.outputs().end(),
                     [&](const OutputInfo& output) { return output.value == id; });
}

// Of a body as users write it; local programs have been checked before they became so.
absl::Status CheckBody(const Graph& body) {
  Variation variation(body);
  for (const Node& node : body.nodes()) {
    absl::Status status = absl::OkStatus();
    const bool is_pinned = std::any_of(node.results.begin(), node.results.end(),
                                       [&](ValueId id) { return body.value(id).layout.has_value(); });
    if (IsControl(node)) status = InvalidArgument("a manual region has no loops and branches in it.");
    else if (node.row->name == "relayout" || is_pinned)
      status = InvalidArgument("a block lies on one device; move it by the collectives of the region.");
    else if (node.row->name == "device_block" && !IsReturned(body, node))
      status = InvalidArgument("says how a result lies, and is none.");
    else if (IsDeviceOp(node)) status = CheckDeviceOp(body, node, variation);
    if (!status.ok()) return Annotate(status, body.Describe(node.row->name, node.location) + ": ");
  }
  for (size_t o = 0; o < body.outputs().size(); ++o) {
    const ValueId id = body.outputs()[o].value;
    const Node& node = body.nodes()[body.value(id).node];
    const auto& pin = node.attrs.Get<LayoutPin>("layout");
    const AxisSet varies = WithoutTrivial(body.mesh(), variation.Of(id).Minus(pin.layout.ShardedAxes()));
    if (!varies.empty())
      return InvalidArgument(
          "result {} lies as {} and may differ between the devices of {}, which do not cut it; combine it "
          "over them, or cut it by them.",
          o, pin.ToString(), NamesOf(body.mesh(), varies));
  }
  return absl::OkStatus();
}

// Of a region of a global program every output is a device_block, of one of a local program none is.
bool IsBodyOfGlobal(const Graph& body) {
  return std::any_of(body.outputs().begin(), body.outputs().end(), [&](const OutputInfo& output) {
    const int n = body.value(output.value).node;
    return n >= 0 && body.nodes()[n].row->name == "device_block";
  });
}

absl::StatusOr<std::vector<Type>> InferOnBlocks(const Graph& body, const std::vector<Type>& operands) {
  for (size_t a = 0; a < operands.size(); ++a) {
    const Type& type = body.value(body.arguments()[a].value).type;
    if (type != operands[a])
      return InvalidArgument("argument %{} is {}, and {} is given.", body.argument_name(static_cast<int>(a)),
                             type.ToString(), operands[a].ToString());
  }
  std::vector<Type> results;
  for (const OutputInfo& output : body.outputs()) results.push_back(body.value(output.value).type);
  return results;
}

}  // namespace

absl::StatusOr<std::vector<Type>> InferManual(const Node& node, const std::vector<Type>& operands) {
  const Graph& body = *node.regions[0];
  if (body.arguments().size() != operands.size())
    return InvalidArgument("its body takes {}, and {} given.", Count(body.arguments().size(), "argument"),
                           operands.size() == 1 ? "1 is" : fmt::format("{} are", operands.size()));
  if (!body.updates().empty()) return InvalidArgument("its body has no variables to update.");
  if (body.outputs().empty()) return InvalidArgument("its body returns nothing.");
  if (!IsBodyOfGlobal(body)) return InferOnBlocks(body, operands);
  for (size_t a = 0; a < operands.size(); ++a) {
    const ValueInfo& info = body.value(body.arguments()[a].value);
    const std::string name = "%" + body.argument_name(static_cast<int>(a));
    if (!info.layout.has_value())
      return InvalidArgument("argument {} has no layout; it says how the operand is cut.", name);
    const absl::StatusOr<Type> whole = WholeOf({*info.layout, info.modes}, info.type);
    if (!whole.ok()) return Annotate(whole.status(), fmt::format("argument {}: ", name));
    if (*whole != operands[a])
      return InvalidArgument("argument {} is {} {}, the block of a {}, and {} is given.", name,
                             info.type.ToString(), info.layout->ToString(), whole->ToString(),
                             operands[a].ToString());
  }
  std::vector<Type> results;
  for (size_t o = 0; o < body.outputs().size(); ++o) {
    const ValueId id = body.outputs()[o].value;
    const int n = body.value(id).node;
    if (n < 0 || body.nodes()[n].row->name != "device_block")
      return InvalidArgument("result {} is no device_block; that says how it lies.", o);
    absl::StatusOr<Type> whole = WholeOf(body.nodes()[n].attrs.Get<LayoutPin>("layout"), body.value(id).type);
    if (!whole.ok()) return Annotate(whole.status(), fmt::format("result {}: ", o));
    results.push_back(*std::move(whole));
  }
  MESHWORK_RETURN_IF_ERROR(CheckBody(body));
  return results;
}

absl::Status CheckManualIsGlobal(const Node& node) {
  if (IsBodyOfGlobal(*node.regions[0])) return absl::OkStatus();
  return InvalidArgument("no result of its body is a device_block; that says how it lies.");
}

// ---- Gradients.

namespace {

// What a term of a gradient becomes before it is added to those of `target`: what devices have in common gets
// the sum of theirs; what they may differ in is no longer common.
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

ValueId AddBlockOf(Graph& body, const Value& x, const Layout& layout, const SourceLocation& location) {
  return body.Add("device_block", {{x}}, {{"layout", LayoutPin{layout}}}, location)[0].id();
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

// A region that does again what the region did, and its gradients behind that.
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

// ---- Builders.

namespace manual {
namespace {

// The axes of these names. Nothing, and the mistake recorded, where there is one.
std::optional<AxisList> FindAxes(Graph& graph, std::string_view op, const Axes& names, CallSite loc) {
  auto fail = [&](std::string_view message) {
    graph.RecordError(fmt::format("{}: {}", graph.Describe(op, loc), message));
    return std::nullopt;
  };
  AxisList axes;
  for (const std::string& name : names) {
    const absl::StatusOr<AxisList> found = graph.mesh().FindAxes(name);
    if (!found.ok()) return fail(MessageOf(found.status()));
    for (int axis : *found) {
      if (AxisSet(axes).Contains(axis))
        return fail(fmt::format("axis \"{}\" appears twice; a list names each axis once.", name));
      axes.push_back(axis);
    }
  }
  return axes;
}

// Records the mistake otherwise.
bool IsInRegion(Graph& graph, std::string_view op, CallSite loc) {
  if (graph.is_manual()) return true;
  graph.RecordError(
      fmt::format("{}: the program is not the body of a manual region; what its devices exchange is "
                  "an operand of the region or made in it.",
                  graph.Describe(op, loc)));
  return false;
}

Value AddNamed(std::string_view op, const Value& x, const Axes& names, const Attrs& attrs, CallSite loc) {
  if (!x.valid() || !IsInRegion(*x.graph(), op, loc)) return {};
  const std::optional<AxisList> axes = FindAxes(*x.graph(), op, names, loc);
  return axes.has_value() ? AddDeviceOp(op, x, *axes, attrs, loc) : Value();
}

// A region while it is built.
class RegionBuilder {
 public:
  RegionBuilder(Graph& graph, CallSite loc) : graph_(graph), loc_(loc), builder_(graph, kManualOp, loc) {
    builder_.body().SetManual();
  }

  std::vector<Value> Build(const std::vector<Value>& operands, const std::vector<LayoutSpec>& layouts,
                           const std::vector<LayoutSpec>& result_layouts, const Body& body) {
    std::vector<Value> invalid(result_layouts.size());
    if (layouts.size() != operands.size()) {
      builder_.Fail("{} and {} are given; give one layout per operand.", Count(operands.size(), "operand"),
                    Count(layouts.size(), "layout"));
      return invalid;
    }
    std::vector<Value> resolved;
    if (!ResolveOperands(graph_, builder_, "operand", operands, resolved)) return invalid;
    std::vector<Value> blocks;
    for (size_t i = 0; i < resolved.size(); ++i) blocks.push_back(AddBlock(i, resolved[i], layouts[i]));
    if (std::any_of(blocks.begin(), blocks.end(), [](const Value& block) { return !block.valid(); }))
      return invalid;
    const std::vector<Value> returned = body(builder_.body(), blocks);
    if (returned.size() != result_layouts.size())
      builder_.Fail("the body returns {}, and there are {}; give one layout per result.",
                    Count(returned.size(), "value"), Count(result_layouts.size(), "layout"));
    for (size_t r = 0; r < std::min(returned.size(), result_layouts.size()); ++r)
      AddResult(r, returned[r], result_layouts[r]);
    const size_t own = builder_.parts().arguments.size();
    if (!builder_.Close()) return invalid;
    Node node{.row = &GetOp(kManualOp), .location = loc_};
    for (const Value& value : resolved) node.operands.push_back(value.id());
    for (const auto& [outer, inner] : builder_.body().captured()) node.operands.push_back(outer);
    // What the body reads of the program around it is whole on each device.
    for (size_t a = own; a < builder_.parts().arguments.size(); ++a) {
      ValueInfo& info = builder_.body().mutable_value(builder_.parts().arguments[a].value);
      info.layout = Layout::Replicated(builder_.body().mesh(), info.type.rank());
    }
    node.regions.push_back(std::make_shared<const Graph>(builder_.Region()));
    const std::vector<Value> results = AddNodeOf(graph_, std::move(node));
    return results.empty() ? invalid : results;
  }

 private:
  // The pin of a layout, for which both programs are cut.
  std::optional<Layout> Pin(std::string_view what, size_t i, const LayoutSpec& spec) {
    absl::StatusOr<LayoutPin> pin = LayoutPin::Create(builder_.body().mesh(), spec);
    if (!pin.ok() || !pin->is_locked() || pin->layout.is_strided()) {
      builder_.Fail("{} {}: {}", what, i,
                    pin.ok()
                        ? fmt::format("layout {}: a manual region wants every dim named by its axes or _.",
                                      pin->ToString())
                        : std::string(MessageOf(pin.status())));
      return std::nullopt;
    }
    graph_.CutMesh(pin->layout.mesh());
    builder_.body().CutMesh(pin->layout.mesh());
    return pin->layout;
  }

  Value AddBlock(size_t i, const Value& operand, const LayoutSpec& spec) {
    const std::optional<Layout> layout = Pin("operand", i, spec);
    if (!layout.has_value()) return {};
    Type block = operand.type();
    if (layout->rank() != block.rank()) {
      builder_.Fail("operand {}: layout {} has {}, {} has {}; give one entry per dim.", i, layout->ToString(),
                    Count(layout->rank(), "dim"), block.ToString(), block.rank());
      return {};
    }
    for (int d = 0; d < block.rank(); ++d) {
      if (block.shape[d] % layout->NumShards(d) != 0) {
        builder_.Fail(
            "operand {}: layout {} cuts dim {} of {} into {} blocks that are not alike; a manual "
            "region works on whole blocks.",
            i, layout->ToString(), d, block.ToString(), layout->NumShards(d));
        return {};
      }
      block.shape[d] /= layout->NumShards(d);
    }
    const Value argument = builder_.Argument(fmt::format("block{}", i), block, false);
    builder_.body().mutable_value(argument.id()).layout = *layout;
    return argument;
  }

  void AddResult(size_t r, const Value& value, const LayoutSpec& spec) {
    const ValueId id = builder_.Returned(value, "result", r);
    const std::optional<Layout> layout = Pin("result", r, spec);
    if (id == kNoValue || !layout.has_value()) return;
    builder_.parts().outputs.push_back(
        AddBlockOf(builder_.body(), {&builder_.body(), id}, *layout, SourceLocation(loc_)));
  }

  Graph& graph_;
  const CallSite loc_;
  BodyBuilder builder_;
};

}  // namespace

std::vector<Value> Region(Graph& graph, const std::vector<Value>& operands,
                          const std::vector<LayoutSpec>& layouts,
                          const std::vector<LayoutSpec>& result_layouts, const Body& body, CallSite loc) {
  return RegionBuilder(graph, loc).Build(operands, layouts, result_layouts, body);
}

Value AxisIndex(Graph& body, const Axes& names, CallSite loc) {
  if (!IsInRegion(body, "device_index", loc)) return {};
  const std::optional<AxisList> axes = FindAxes(body, "device_index", names, loc);
  return axes.has_value() ? body.Add("device_index", {}, {{"axes", *axes}}, loc)[0] : Value();
}

Value AllReduce(const Value& x, const Axes& axes, ReduceOp op, CallSite loc) {
  return AddNamed("device_all_reduce", x, axes, {{"op", op}}, loc);
}

Value AllGather(const Value& x, int64_t dim, const Axes& axes, CallSite loc) {
  return AddNamed("device_all_gather", x, axes, {{"dim", dim}}, loc);
}

Value ReduceScatter(const Value& x, int64_t dim, const Axes& axes, ReduceOp op, CallSite loc) {
  return AddNamed("device_reduce_scatter", x, axes, {{"dim", dim}, {"op", op}}, loc);
}

Value AllToAll(const Value& x, int64_t from, int64_t to, const Axes& axes, CallSite loc) {
  return AddNamed("device_all_to_all", x, axes, {{"from", from}, {"to", to}}, loc);
}

Value Shift(const Value& x, int64_t by, const Axes& axes, CallSite loc) {
  return AddNamed("device_shift", x, axes, {{"by", by}}, loc);
}

Value Vary(const Value& x, const Axes& axes, CallSite loc) {
  return AddNamed("device_vary", x, axes, {}, loc);
}

}  // namespace manual
}  // namespace meshwork
