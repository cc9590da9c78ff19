// The builders of manual regions and of what devices exchange in them.
#include "meshwork/ops/control/manual.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/body_builder.h"
#include "meshwork/ops/control/manual_gradients.h"
#include "meshwork/ops/control/manual_ops.h"

namespace meshwork {
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
  graph.RecordError(fmt::format(
      "{}: the program is not the body of a manual region; what its devices exchange is "
      "an operand of the region or made in it. Call it in the body of manual::Region; outside, ops exchange "
      "by themselves what they need.",
      graph.Describe(op, loc)));
  return false;
}

Value AddNamed(std::string_view op, const Value& x, const Axes& names, const Attrs& attrs, CallSite loc) {
  if (!x.valid() || !IsInRegion(*x.graph(), op, loc)) return {};
  const std::optional<AxisList> axes = FindAxes(*x.graph(), op, names, loc);
  return axes.has_value() ? AddDeviceOp(op, x, *axes, attrs, loc) : Value();
}

using LaidBody =
    std::function<std::vector<BlockResult>(BodyBuilder& builder, const std::vector<Value>& blocks)>;

// A region while it is built.
class RegionBuilder {
 public:
  RegionBuilder(Graph& graph, CallSite loc) : graph_(graph), loc_(loc), builder_(graph, kManualOp, loc) {
    builder_.body().SetManual();
  }

  // `expected`: how many results there are, where that is known before.
  std::vector<Value> Build(const std::vector<Value>& operands, const std::vector<LayoutSpec>& layouts,
                           size_t expected, const LaidBody& body) {
    std::vector<Value> invalid(expected);
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
    const std::vector<BlockResult> returned = body(builder_, blocks);
    for (size_t r = 0; r < returned.size(); ++r) AddResult(r, returned[r].block, returned[r].layout);
    const size_t own = builder_.parts().arguments.size();
    if (!builder_.Close()) return invalid;
    Node node{.row = &GetOp(kManualOp), .location = loc_};
    for (const Value& value : resolved) node.operands.push_back(value.id());
    for (const auto& [outer, inner] : builder_.body().captured()) node.operands.push_back(outer);
    // Values that the body reads from the program around it are whole on each device.
    for (size_t a = own; a < builder_.parts().arguments.size(); ++a) {
      ValueInfo& info = builder_.body().mutable_value(builder_.parts().arguments[a].value);
      info.layout = Layout::Replicated(builder_.body().mesh(), info.type.rank());
    }
    node.regions.push_back(std::make_shared<const Graph>(builder_.Region()));
    const std::vector<Value> results = AddNodeOf(graph_, std::move(node));
    return results.empty() ? invalid : results;
  }

 private:
  // The pin of a layout. Cuts the meshes of the program and the body as the layout requires.
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
            "region works on whole blocks: Pad the dim to a multiple of {}, or leave it unsharded.",
            i, layout->ToString(), d, block.ToString(), layout->NumShards(d), layout->NumShards(d));
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
  const auto laid = [&](BodyBuilder& builder, const std::vector<Value>& blocks) {
    const std::vector<Value> returned = body(builder.body(), blocks);
    if (returned.size() != result_layouts.size())
      builder.Fail("the body returns {}, and there are {}; give one layout per result.",
                   Count(returned.size(), "value"), Count(result_layouts.size(), "layout"));
    std::vector<BlockResult> results;
    for (size_t r = 0; r < std::min(returned.size(), result_layouts.size()); ++r)
      results.push_back({returned[r], result_layouts[r]});
    return results;
  };
  return RegionBuilder(graph, loc).Build(operands, layouts, result_layouts.size(), laid);
}

std::vector<Value> Region(
    Graph& graph, const std::vector<Value>& operands, const std::vector<LayoutSpec>& layouts,
    const std::function<std::vector<BlockResult>(Graph& body, const std::vector<Value>& blocks)>& body,
    CallSite loc) {
  return RegionBuilder(graph, loc)
      .Build(operands, layouts, 0, [&](BodyBuilder& builder, const std::vector<Value>& blocks) {
        return body(builder.body(), blocks);
      });
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

std::optional<std::vector<Value>> OwnGradients(const Value& loss, std::span<const Value> wrt,
                                               const Axes& names, CallSite loc) {
  if (!loss.valid() || !IsInRegion(*loss.graph(), "gradients", loc)) return std::nullopt;
  const std::optional<AxisList> axes = FindAxes(*loss.graph(), "gradients", names, loc);
  if (!axes.has_value()) return std::nullopt;
  return OwnGradientsOver(*axes, loss, wrt, loc);
}

}  // namespace manual
}  // namespace meshwork
