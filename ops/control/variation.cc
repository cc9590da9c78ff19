#include "meshwork/ops/control/variation.h"

#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"

namespace meshwork {

AxisSet WithoutTrivial(const Mesh& mesh, AxisSet axes) {
  for (int axis : axes.ToList())
    if (mesh.axis(axis).size == 1) axes.Remove(axis);
  return axes;
}

AxisSet Variation::Of(ValueId id) {
  axes_.resize(body_.values().size());
  for (; arguments_ < body_.arguments().size(); ++arguments_) {
    const ValueId argument = body_.arguments()[arguments_].value;
    const std::optional<Layout>& layout = body_.value(argument).layout;
    // While the body is built, what it has captured has no layout yet.
    axes_[argument] = layout.has_value() ? layout->ShardedAxes() : of_captured_;
  }
  for (; nodes_ < body_.nodes().size(); ++nodes_) {
    const Node& node = body_.nodes()[nodes_];
    AxisSet axes;
    for (ValueId operand : node.operands) axes = axes.Union(axes_[operand]);
    if (IsDeviceOp(node) && node.attrs.Find("axes") != nullptr) {
      const AxisSet own(node.attrs.Get<AxisList>("axes"));
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

}  // namespace meshwork
