#include "meshwork/stablehlo/write_shardy.h"

#include <optional>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/stablehlo/module.h"

namespace meshwork {
namespace {

using stablehlo::HloText;
using stablehlo::HloValue;

// A part of an axis as it was before it was cut: of "x":(2)4 the four of each two; of a whole axis `before` is 1.
struct AxisPart {
  std::string name;
  int64_t before = 1, size = 1;

  // Whether `next` divides what this part has made.
  bool Continues(const AxisPart& next) const { return name == next.name && before * size == next.before; }
};

std::vector<AxisPart> PartsOf(const Mesh& mesh) {
  std::vector<AxisPart> parts;
  for (int a = 0; a < mesh.num_axes(); ++a) {
    const std::string& name = mesh.axis(a).name;
    AxisPart part{.name = name.substr(0, name.find(':')), .size = mesh.axis(a).size};
    if (!parts.empty() && parts.back().name == part.name)
      part.before = parts.back().before * parts.back().size;
    parts.push_back(std::move(part));
  }
  return parts;
}

// Parts that follow each other as one.
std::vector<AxisPart> Merged(const std::vector<AxisPart>& parts) {
  std::vector<AxisPart> merged;
  for (const AxisPart& part : parts) {
    if (!merged.empty() && merged.back().Continues(part)) merged.back().size *= part.size;
    else merged.push_back(part);
  }
  return merged;
}

// sdy.mesh @mesh = <["x"=2, "y"=4]>, of whole axes.
std::string MeshLine(const Mesh& mesh) {
  std::vector<std::string> texts;
  for (const AxisPart& axis : Merged(PartsOf(mesh)))
    texts.push_back(fmt::format("\"{}\"={}", axis.name, axis.size));
  return fmt::format("  sdy.mesh @mesh = <[{}]>\n", fmt::join(texts, ", "));
}

// "x", or "x":(2)4 of an axis that is cut.
std::string AxisText(const Mesh& mesh, const AxisPart& part) {
  for (const AxisPart& whole : Merged(PartsOf(mesh)))
    if (whole.name == part.name && whole.size == part.size) return fmt::format("\"{}\"", part.name);
  return fmt::format("\"{}\":({}){}", part.name, part.before, part.size);
}

// How a value is pinned, if it is: by its declaration, or because it is a relayout.
std::optional<LayoutPin> PinOf(const Graph& graph, ValueId id) {
  const ValueInfo& value = graph.value(id);
  if (value.node >= 0 && graph.nodes()[static_cast<size_t>(value.node)].row->name == "relayout")
    return graph.nodes()[static_cast<size_t>(value.node)].attrs.Get<LayoutPin>("layout");
  if (!value.layout.has_value()) return std::nullopt;
  return LayoutPin{.layout = *value.layout, .modes = value.modes};
}

// <@mesh, [{"x"}, {?}]>; REQUIRES: the pin is not strided.
std::string ShardingText(const LayoutPin& pin) {
  const Mesh& mesh = pin.layout.mesh();
  const std::vector<AxisPart> parts = PartsOf(mesh);
  std::vector<std::string> dims;
  for (int d = 0; d < pin.layout.rank(); ++d) {
    std::vector<AxisPart> of_dim;
    for (const int axis : pin.layout.dim(d)) of_dim.push_back(parts[static_cast<size_t>(axis)]);
    std::vector<std::string> axes;
    for (const AxisPart& part : Merged(of_dim)) axes.push_back(AxisText(mesh, part));
    if (pin.mode(d) != DimMode::kLocked) axes.emplace_back("?");
    dims.push_back(fmt::format("{{{}}}", fmt::join(axes, ", ")));
  }
  return fmt::format("<@mesh, [{}]>", fmt::join(dims, ", "));
}

std::string ShardingAttribute(const Graph& graph, ValueId id) {
  const std::optional<LayoutPin> pin = PinOf(graph, id);
  return pin.has_value() ? fmt::format("{{sdy.sharding = #sdy.sharding{}}}", ShardingText(*pin)) : "";
}

// The program without its pins, which are said to Shardy and mean nothing to the forms of ops.
Graph WithoutPins(const Graph& global) {
  return WithRegions(global, [](const Graph& graph) {
    Graph bare = graph;
    for (size_t v = 0; v < bare.values().size(); ++v) {
      ValueInfo& value = bare.mutable_value(static_cast<ValueId>(v));
      value.layout.reset();
      value.modes.clear();
    }
    return bare;
  });
}

absl::Status CheckPins(const Graph& global) {
  for (size_t v = 0; v < global.values().size(); ++v) {
    const std::optional<LayoutPin> pin = PinOf(global, static_cast<ValueId>(v));
    if (!pin.has_value() || !pin->layout.is_strided()) continue;
    return absl::UnimplementedError(
        fmt::format("WriteShardy: a value of {} is pinned as {}, which has strided dims; Shardy has none.",
                    global.name, pin->ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> WriteShardy(const Graph& global) {
  MESHWORK_RETURN_IF_ERROR(CheckPins(global));
  const std::vector<ValueId> returned = stablehlo::ReturnedBy(global);
  // An update lies as its variable does.
  const auto of_result = [&](size_t r) {
    const size_t outputs = global.outputs().size();
    if (r < outputs) return ShardingAttribute(global, returned[r]);
    const auto argument = static_cast<size_t>(global.updates()[r - outputs].argument);
    return ShardingAttribute(global, global.arguments()[argument].value);
  };
  const auto placed = [&](HloText& text, ValueId id, const HloValue& value) {
    const std::optional<LayoutPin> pin = PinOf(global, id);
    if (!pin.has_value()) return value;
    const HloValue moved = text.NewValue(value.type);
    text.Line(fmt::format("%{} = sdy.sharding_constraint %{} {} : {}", moved.id, value.id, ShardingText(*pin),
                          stablehlo::TypeText(value.type)));
    return moved;
  };
  return stablehlo::WriteModule(
      WithoutPins(global),
      {.attributes = fmt::format("mhlo.num_replicas = 1 : i32, mhlo.num_partitions = {} : i32",
                                 global.mesh().num_devices()),
       .symbols = MeshLine(global.mesh()),
       .of_argument = [&](size_t a) { return ShardingAttribute(global, global.arguments()[a].value); },
       .of_result = of_result,
       .placed = placed});
}

}  // namespace meshwork
