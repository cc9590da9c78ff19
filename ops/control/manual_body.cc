#include "meshwork/ops/control/manual_body.h"

#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

class BodyWriter {
 public:
  BodyWriter(const Graph& body, bool narrow_sums)
      : body_(body),
        mesh_(body.mesh()),
        narrow_sums_(narrow_sums),
        to_(mesh_),
        map_(body.values().size(), kNoValue) {
    to_.name = body.name;
    for (int axis = 0; axis < mesh_.num_axes(); ++axis)
      if (mesh_.axis(axis).size > 1) all_.push_back(axis);
  }

  Graph Run() && {
    for (const Argument& argument : body_.arguments()) {
      ValueInfo info = body_.value(argument.value);
      info.modes.clear();
      info.global.shape = WholeShape(*info.layout, info.type.shape);
      map_[argument.value] = to_.AddArgument(std::move(info), false);
    }
    for (const Argument& argument : body_.arguments())
      map_[argument.value] = Own(map_[argument.value], body_.value(argument.value).location);
    for (const Node& node : body_.nodes()) Write(node);
    for (const OutputInfo& output : body_.outputs()) to_.AddOutput({output.name, map_[output.value]});
    return std::move(to_);
  }

 private:
  std::string CauseOf(const Node& node) const { return body_.Describe(node.row->name, node.location); }

  // The axes of a collective, without those of size 1; and the reductions by `op` over all other axes.
  AxisList AxesOf(const Node& node) const {
    AxisList axes;
    for (int axis : node.attrs.Get<AxisList>("axes"))
      if (mesh_.axis(axis).size > 1) axes.push_back(axis);
    return axes;
  }
  PartialSet OwedBut(const AxisList& axes, ReduceOp op) const {
    PartialSet owed;
    for (int axis : all_)
      if (!AxisSet(axes).Contains(axis)) owed.push_back({axis, op});
    return owed;
  }
  static ReduceOp OpOf(const Type& type) { return type.dtype == BOOL ? ReduceOp::kOr : ReduceOp::kSum; }

  // The info of a value that each device has of its own.
  ValueInfo OwnInfo(const Type& type, const SourceLocation& location) const {
    return {.type = type,
            .global = type,
            .layout = Layout(mesh_, std::vector<AxisList>(static_cast<size_t>(type.rank())),
                             OwedBut({}, OpOf(type))),
            .location = location};
  }

  // The info of a block, cut along `dim` over `axes`, of a value that owes `op` over the other axes; dim -1:
  // not cut.
  ValueInfo BlockInfo(const Type& type, const AxisList& axes, int dim, ReduceOp op,
                      const SourceLocation& location) const {
    ValueInfo info = OwnInfo(type, location);
    std::vector<AxisList> dims(static_cast<size_t>(type.rank()));
    if (dim >= 0) dims[static_cast<size_t>(dim)] = axes;
    info.layout = Layout(mesh_, std::move(dims), OwedBut(dim >= 0 ? axes : AxisList(), op));
    info.global.shape = WholeShape(*info.layout, type.shape);
    return info;
  }

  // The shape of the tensor that blocks of this shape make up.
  static Shape WholeShape(const Layout& layout, Shape block) {
    for (int d = 0; d < layout.rank(); ++d) block[d] *= layout.NumShards(d);
    return block;
  }

  // The same elements with other info: a reshape of `id`, or `id` itself if nothing changes.
  ValueId Say(ValueId id, ValueInfo info) {
    const ValueInfo& have = to_.value(id);
    if (have.type == info.type && have.global == info.global && *have.layout == *info.layout) return id;
    Node node{
        .row = &GetOp("reshape"), .attrs = {{"shape", ToInts(info.type.shape)}}, .location = info.location};
    node.operands.push_back(id);
    return to_.nodes()[to_.AddNode(std::move(node), {std::move(info)})].results[0];
  }
  ValueId Own(ValueId id, const SourceLocation& location) {
    const Type type = to_.value(id).type;
    return Say(id, OwnInfo(type, location));
  }

  ValueId AddCollective(std::string_view op, ValueId id, const Attrs& attrs, const Node& node) {
    return to_.nodes()[AddLocalNode(to_, op, {{id}}, attrs, node.location, CauseOf(node))].results[0];
  }

  void Write(const Node& node) {
    if (node.row->kind == OpKind::kDevice) {
      map_[node.results[0]] = WriteDeviceOp(node);
      return;
    }
    if (IsNote(node)) {
      map_[node.results[0]] = map_[node.operands[0]];
      return;
    }
    Node copy = node;
    for (ValueId& id : copy.operands) id = map_[id];
    std::vector<ValueInfo> infos;
    for (ValueId id : node.results) {
      infos.push_back(OwnInfo(body_.value(id).type, node.location));
      infos.back().name = body_.value(id).name;
    }
    const int index = to_.AddNode(std::move(copy), std::move(infos));
    for (size_t r = 0; r < node.results.size(); ++r) map_[node.results[r]] = to_.nodes()[index].results[r];
  }

  ValueId WriteDeviceOp(const Node& node) {
    const std::string_view op = node.row->name;
    if (op == "device_index") return WriteIndex(node);
    const ValueId x = map_[node.operands[0]];
    if (op == "device_vary") return x;
    const Type type = to_.value(x).type;
    if (op == "device_block") {
      const Layout layout = node.attrs.Get<LayoutPin>("layout").layout;
      ValueInfo info{.type = type, .global = type, .layout = layout, .location = node.location};
      info.global.shape = WholeShape(layout, type.shape);
      return Say(x, std::move(info));
    }
    const AxisList axes = AxesOf(node);
    if (axes.empty()) return x;
    if (op == "device_shift") return Own(WriteShift(node, x, axes), node.location);
    const CollectiveSpec collective = CollectiveOf(node);
    const DType summed = collective.reduces() && !narrow_sums_
                             ? CarriedDType(type.dtype, OwedBut({}, collective.op))
                             : type.dtype;
    const ValueId moved = WriteCollective(node, InDType(x, summed, node), axes);
    return InDType(Own(moved, node.location), type.dtype, node);
  }

  // The device's own value `id` in `dtype`.
  ValueId InDType(ValueId id, DType dtype, const Node& node) {
    Type type = to_.value(id).type;
    if (type.dtype == dtype) return id;
    type.dtype = dtype;
    const OpRow& row = GetOp("cast");
    Node cast{.row = &row,
              .attrs = Graph::CompleteAttrs(row, {{"dtype", dtype}}).value(),
              .location = node.location,
              .cause = CauseOf(node)};
    cast.operands.push_back(id);
    return to_.nodes()[to_.AddNode(std::move(cast), {OwnInfo(type, node.location)})].results[0];
  }

  ValueId WriteCollective(const Node& node, ValueId x, const AxisList& axes) {
    CollectiveSpec collective = CollectiveOf(node);
    collective.axes = axes;
    const Type type = to_.value(x).type;
    // A value to be reduced is whole and owed; a value to be gathered is cut along the dim.
    const int dim = collective.reduces() ? -1 : static_cast<int>(collective.dim);
    const ReduceOp reduce = collective.reduces() ? collective.op : OpOf(type);
    const ValueId block = Say(x, BlockInfo(type, axes, dim, reduce, node.location));
    return AddCollective(CollectiveOp(collective.kind), block, AttrsOf(collective), node);
  }

  // Writes a roll of the tensor that consists of the ring's blocks, one behind the other.
  ValueId WriteShift(const Node& node, ValueId x, const AxisList& axes) {
    const Type type = to_.value(x).type;
    const int64_t devices = mesh_.GroupSize(axes), by = node.attrs.Get<int64_t>("by") % devices;
    if (by == 0 || type.num_elements() == 0) return x;
    Type block = type;
    if (block.rank() == 0) block.shape.push_back(1);
    const ValueInfo info = BlockInfo(block, axes, 0, OpOf(type), node.location);
    const ValueId blocks = Say(x, info);
    const OpRow& roll = GetOp("roll");
    const Attrs attrs = {{"shift", by * block.shape[0]}, {"dim", int64_t{0}}};
    const std::vector<Type> types = {info.global};
    const OpRow& exchange = GetOp("exchange");
    Node moved{
        .row = &exchange,
        .operands = {blocks, blocks},
        .attrs = Graph::CompleteAttrs(exchange, roll.exchange({types, types, attrs}).ToAttrs()).value(),
        .location = node.location,
        .cause = CauseOf(node)};
    const ValueId shifted = to_.nodes()[to_.AddNode(std::move(moved), {info})].results[0];
    if (type.rank() > 0) return shifted;
    return Say(shifted, OwnInfo(type, node.location));
  }

  // The device's element of 0, 1, 2, …
  ValueId WriteIndex(const Node& node) {
    const AxisList axes = AxesOf(node);
    const ValueInfo own = OwnInfo({I64, {}}, node.location);
    ValueInfo info{.type = {I64, {1}},
                   .global = {I64, {mesh_.GroupSize(axes)}},
                   .layout = Layout(mesh_, {axes}),
                   .location = node.location};
    Node iota{
        .row = &GetOp("iota"),
        .attrs = Graph::CompleteAttrs(
                     GetOp("iota"), {{"dim", int64_t{0}}, {"dtype", I64}, {"shape", std::vector<int64_t>{1}}})
                     .value(),
        .location = node.location};
    return Say(to_.nodes()[to_.AddNode(std::move(iota), {std::move(info)})].results[0], own);
  }

  const Graph& body_;
  const Mesh& mesh_;
  const bool narrow_sums_;
  Graph to_;
  AxisList all_;  // that have more than one device
  std::vector<ValueId> map_;
};

}  // namespace

Graph ManualBody(const Graph& body, bool narrow_sums) { return BodyWriter(body, narrow_sums).Run(); }

}  // namespace meshwork
