#include "meshwork/session/remesh.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "fmt/ranges.h"
#include "meshwork/base/name_patterns.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/missing_axes.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"

namespace meshwork {
namespace {

// The weight whose state `state` is: the variable of its shape and layout whose name ends its name. Null: none is.
const ValueInfo* WeightOf(const Graph& graph, const ValueInfo& state) {
  const ValueInfo* weight = nullptr;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    if (!argument.is_variable || info.type.shape != state.type.shape || info.layout != state.layout ||
        info.modes != state.modes || !std::string_view(state.name).ends_with("/" + info.name))
      continue;
    if (weight == nullptr || info.name.size() > weight->name.size()) weight = &info;
  }
  return weight;
}

// Layouts are written by axis names, because a mesh that is cut for one of them changes the positions of all axes. The
// program's mesh is the given one, cut where the layouts need it.
class MeshChange {
 public:
  explicit MeshChange(Mesh mesh) : mesh_(std::move(mesh)) {}

  const Mesh& mesh() const { return mesh_; }

  // The axes that the changed pins named.
  const std::vector<std::string>& asked() const { return asked_; }

  // The pin by the axes that are left.
  absl::StatusOr<LayoutPin> Change(const LayoutPin& pin) {
    const LayoutSpec spec = SpecOf(pin);
    for (std::string& axis : AxesNamedBy(spec))
      if (std::find(asked_.begin(), asked_.end(), axis) == asked_.end()) asked_.push_back(std::move(axis));
    return Pin(WithoutMissingAxes(mesh_, spec));
  }

  absl::StatusOr<LayoutPin> Pin(const LayoutSpec& spec) {
    MESHWORK_ASSIGN_OR_RETURN(LayoutPin pin, LayoutPin::Create(mesh_, spec));
    mesh_ = pin.layout.mesh();
    return pin;
  }

 private:
  Mesh mesh_;
  std::vector<std::string> asked_;
};

std::vector<std::pair<std::string, Type>> ArgumentsOf(const Graph& graph) {
  std::vector<std::pair<std::string, Type>> arguments;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    arguments.emplace_back(info.name, info.type);
  }
  return arguments;
}

// Changes the layouts of a program and of the bodies in it, beginning with those of its arguments.
class Changer {
 public:
  Changer(MeshChange& change, const NamedLayouts& layouts) : change_(change), layouts_(layouts) {}

  absl::Status ChangeArguments(Graph& graph) {
    const Graph before = graph;
    for (const Argument& argument : before.arguments()) {
      const ValueInfo& info = before.value(argument.value);
      const LayoutSpec* named = FindLayout(layouts_, info.name, info.type.rank());
      if (named == nullptr && argument.is_variable) {
        const ValueInfo* const weight = WeightOf(before, info);
        if (weight != nullptr) named = FindLayout(layouts_, weight->name, weight->type.rank());
      }
      if (named == nullptr) continue;
      absl::StatusOr<LayoutPin> pin = change_.Pin(*named);
      if (!pin.ok()) return Annotate(pin.status(), fmt::format("Remesh: \"{}\": ", info.name));
      SetPin(graph.mutable_value(argument.value), *std::move(pin));
      is_named_.push_back(argument.value);
    }
    return absl::OkStatus();
  }

  // Changes everything that is not named. `is_program`: not a body.
  absl::Status ChangeRest(Graph& graph, bool is_program) {
    for (ValueId id = 0; id < std::ssize(graph.values()); ++id) {
      ValueInfo& info = graph.mutable_value(id);
      if (!info.layout.has_value()) continue;
      if (is_program && std::find(is_named_.begin(), is_named_.end(), id) != is_named_.end()) continue;
      MESHWORK_ASSIGN_OR_RETURN(LayoutPin pin, change_.Change({*info.layout, info.modes}));
      SetPin(info, std::move(pin));
    }
    for (int n = 0; n < std::ssize(graph.nodes()); ++n) {
      Node& node = graph.mutable_node(n);
      const Attrs before = node.attrs;
      for (const auto& [name, value] : before.entries()) {
        if (std::holds_alternative<AxisList>(value)) return MadeForMesh(graph, n);
        if (const auto* pin = std::get_if<LayoutPin>(&value)) {
          MESHWORK_ASSIGN_OR_RETURN(LayoutPin changed, change_.Change(*pin));
          node.attrs.Set(name, std::move(changed));
        }
      }
      if (IsManual(node)) return MadeForMesh(graph, n);
      for (std::shared_ptr<const Graph>& region : node.regions) {
        Graph body = *region;
        MESHWORK_RETURN_IF_ERROR(ChangeRest(body, /*is_program=*/false));
        region = std::make_shared<const Graph>(std::move(body));
      }
    }
    return absl::OkStatus();
  }

 private:
  static void SetPin(ValueInfo& info, LayoutPin pin) {
    info.layout = std::move(pin.layout);
    info.modes = std::move(pin.modes);
  }
  static absl::Status MadeForMesh(const Graph& graph, int node) {
    return InvalidArgument(
        "Remesh: {} is written for the mesh {}; build the program on the new mesh, and call Remesh with it.",
        graph.Describe(node), graph.mesh().ToString());
  }

  MeshChange& change_;
  const NamedLayouts& layouts_;
  std::vector<ValueId> is_named_;  // arguments that have their layout
};

// `graph`, whose layouts are of `mesh` or of meshes that are cut less, on `mesh`.
Graph PutOn(const Graph& graph, const Mesh& mesh) {
  Graph to(mesh);
  to.name = graph.name;
  std::vector<ValueId> map(graph.values().size(), kNoValue);
  for (const Argument& argument : graph.arguments())
    map[static_cast<size_t>(argument.value)] =
        to.AddArgument(graph.value(argument.value), argument.is_variable, argument.initializer);
  for (const Node& node : graph.nodes()) {
    Node copy = node;
    for (const auto& [name, value] : node.attrs.entries())
      if (const auto* pin = std::get_if<LayoutPin>(&value))
        copy.attrs.Set(name, LayoutPin{pin->layout.On(mesh), pin->modes});
    for (std::shared_ptr<const Graph>& region : copy.regions)
      region = std::make_shared<const Graph>(PutOn(*region, mesh));
    CopyNode(graph, copy, to, map);
  }
  for (ValueId id = 0; id < std::ssize(to.values()); ++id)
    if (ValueInfo& info = to.mutable_value(id); info.layout.has_value()) info.layout = info.layout->On(mesh);
  for (const OutputInfo& output : graph.outputs())
    to.AddOutput({output.name, map[static_cast<size_t>(output.value)]});
  for (const VariableUpdate& update : graph.updates())
    to.AddUpdate({update.argument, map[static_cast<size_t>(update.value)], update.location});
  return to;
}

// With less, a message would carry only a handful of elements.
constexpr int64_t kLeastInFlight = 1024;

}  // namespace

absl::StatusOr<Graph> OnOtherMesh(const Graph& graph, const Mesh& mesh, const NamedLayouts& layouts) {
  MESHWORK_RETURN_IF_ERROR(graph.status());
  if (absl::Status status = CheckLayouts(layouts, ArgumentsOf(graph)); !status.ok())
    return Annotate(status, "Remesh: ");
  MeshChange change(mesh);
  Changer changer(change, layouts);
  Graph changed = graph;
  MESHWORK_RETURN_IF_ERROR(changer.ChangeArguments(changed));
  MESHWORK_RETURN_IF_ERROR(changer.ChangeRest(changed, /*is_program=*/true));
  Graph moved = PutOn(changed, change.mesh());
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckMissingAxes(moved, change.asked()), "Remesh: "));
  return moved;
}

absl::Status CheckSameVariables(const Graph& graph, const std::map<std::string, DTensor>& variables) {
  std::vector<std::string> wrong;
  for (const auto& [name, tensor] : variables) {
    const int a = graph.FindArgument(name);
    if (a < 0 || !graph.arguments()[static_cast<size_t>(a)].is_variable)
      wrong.push_back(fmt::format("\"{}\" {} is missing", name, tensor.type().ToString()));
    else if (const Type& type = graph.value(graph.arguments()[static_cast<size_t>(a)].value).type;
             type != tensor.type())
      wrong.push_back(
          fmt::format("\"{}\" is {} and must be {}", name, type.ToString(), tensor.type().ToString()));
  }
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    if (argument.is_variable && !variables.contains(info.name))
      wrong.push_back(fmt::format("\"{}\" {} is not expected", info.name, info.type.ToString()));
  }
  if (wrong.empty()) return absl::OkStatus();
  return InvalidArgument("Remesh: the program has other variables than the session: {}.",
                         fmt::join(wrong, "; "));
}

absl::Status CheckOptions(const RemeshOptions& options) {
  if (options.max_bytes_in_flight < kLeastInFlight)
    return InvalidArgument("Remesh: max_bytes_in_flight is {}; at least {} bytes are sent at a time.",
                           options.max_bytes_in_flight, kLeastInFlight);
  if (options.memory_budget < 0)
    return InvalidArgument(
        "Remesh: memory_budget is {}; give the bytes that a domain has, or 0 for no limit.",
        options.memory_budget);
  return absl::OkStatus();
}

}  // namespace meshwork
