// The family of manual regions: the region itself and the ops that only its body has; their inference and
// gradients.
#include "meshwork/ops/control/manual_ops.h"

#include <limits>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/check_manual.h"
#include "meshwork/ops/control/families.h"
#include "meshwork/ops/control/manual_gradients.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

const AxisList& AxesOf(const Attrs& attrs) { return attrs.Get<AxisList>("axes"); }

// ---- Inference.

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

// The dim grows by the number of devices.
absl::Status Gather(std::string_view attribute, const Attrs& attrs, Type& type) {
  const int64_t dim = attrs.Get<int64_t>(attribute);
  MESHWORK_RETURN_IF_ERROR(CheckDim(attribute, dim, type));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t count, CountOf(attrs));
  type.shape[dim] = GrownSize(type.shape[dim], count);
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

// ---- Gradients.

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

absl::StatusOr<std::vector<Type>> RefuseWithoutRegion(const OpView&) {
  return InvalidArgument("it has a body; write it with manual::Region.");
}

}  // namespace

int64_t GrownSize(int64_t size, int64_t count) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return size > 0 && count > kMost / size ? kMost : size * count;
}

Value AddDeviceOp(std::string_view op, const Value& x, const AxisList& axes, Attrs attrs,
                  const SourceLocation& location) {
  Graph& graph = *x.graph();
  attrs.Set("axes", axes);
  for (const AttrSpec& spec : GetOp(op).attrs)
    if (spec.name == "count") attrs.Set("count", graph.mesh().GroupSize(axes));
  return graph.Add(op, {{x}}, attrs, location)[0];
}

ValueId AddBlockOf(Graph& body, const Value& x, const Layout& layout, const SourceLocation& location) {
  return body.Add("device_block", {{x}}, {{"layout", LayoutPin{layout}}}, location)[0].id();
}

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
       .infer = RefuseWithoutRegion,
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
       .takes_storage = true,
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
       .takes_storage = true,
       .infer = InferAllToAll,
       .grad = AllToAllGrad},
      {.name = "device_shift",
       .doc = "the x of the device `by` before this one, in a ring of those of axes",
       .kind = OpKind::kDevice,
       .attrs = {axes, {"by", AttrKind::kInt}, count},
       .takes_storage = true,
       .infer = InferShift,
       .grad = ShiftGrad},
      {.name = "device_vary",
       .doc = "x, as a value that may differ between the devices of axes",
       .kind = OpKind::kDevice,
       .attrs = {axes},
       .takes_storage = true,
       .infer = InferSame,
       .grad = SameGrad},
      {.name = "device_block",
       .doc = "x, as the device's block of a result that lies so",
       .kind = OpKind::kDevice,
       .attrs = {{"layout", AttrKind::kLayout}},
       .takes_storage = true,
       .infer = InferSame,
       .grad = SameGrad},
  };
  return *rows;
}

}  // namespace meshwork
