#include "meshwork/ops/control/check_manual.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/manual_ops.h"
#include "meshwork/ops/control/variation.h"

namespace meshwork {
namespace {

// The type of the tensor that a pin of a region cuts into blocks of type `block`. Errors: the pin has OPEN,
// MATCH or strided dims, is partial, or has another rank; the tensor is too large.
absl::StatusOr<Type> WholeOf(const LayoutPin& pin, const Type& block) {
  const Layout& layout = pin.layout;
  if (!pin.is_locked() || layout.is_strided() || layout.is_partial())
    return InvalidArgument("layout {}: a manual region wants every dim named by its axes or _.",
                           pin.ToString());
  if (layout.rank() != block.rank())
    return InvalidArgument("layout {} has {}, {} has {}; give one entry per dim.", pin.ToString(),
                           Count(layout.rank(), "dim"), block.ToString(), block.rank());
  Type whole = block;
  for (int d = 0; d < layout.rank(); ++d) whole.shape[d] = GrownSize(whole.shape[d], layout.NumShards(d));
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

// Checks a body as users write it. Bodies of local programs were checked before they were made local.
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

// In a region of a global program every output is a device_block; in a region of a local program none is.
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

}  // namespace meshwork
