#include "meshwork/spmd/shard_weight_update.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/spmd/plan_step.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/rewrite/optimizer_state.h"

namespace meshwork {
namespace {

// A program with a layout for every value, and what its collectives send.
struct Placed {
  Graph graph;
  int64_t refused = 0;  // gathers beyond the budget
  int64_t bytes = 0;    // but for scalars
};

Placed Place(const Graph& graph, const ShardWeightUpdateOptions& options) {
  PlannedStep step = PlanStep(
      graph, Propagate(graph).graph,
      {.topology = options.topology, .replication_budget = options.replication_budget, .searches = false});
  Placed placed{std::move(step.placed), step.refused};
  for (const Node& node : step.local.nodes())
    if (node.row->kind == OpKind::kCollective && step.local.value(node.operands[0]).global.num_elements() > 1)
      placed.bytes += WireBytes(step.local, node);
  return placed;
}

// The axes over which the gradients of the group are summed: those of the sums before its updates.
AxisSet SummedOver(const Graph& placed, const WeightState& group) {
  auto is_of_group = [&](int argument) {
    return argument == group.weight ||
           std::find(group.state.begin(), group.state.end(), argument) != group.state.end();
  };
  const Shape& shape = placed.value(placed.arguments()[group.weight].value).type.shape;
  std::vector<bool> reached(placed.values().size(), false);
  std::vector<ValueId> next;
  for (const VariableUpdate& update : placed.updates())
    if (is_of_group(update.argument)) next.push_back(update.value);
  AxisSet axes;
  while (!next.empty()) {
    const ValueInfo& info = placed.value(next.back());
    const bool is_new = !reached[next.back()];
    reached[next.back()] = true;
    next.pop_back();
    if (!is_new || info.node < 0) continue;
    const Node& node = placed.nodes()[info.node];
    if (node.row->name == "relayout") {
      const Layout& from = *placed.value(node.operands[0]).layout;
      const bool sums = from.is_partial() && from.partials()[0].op == ReduceOp::kSum;
      if (sums) axes = axes.Union(from.PartialAxes().Minus(info.layout->PartialAxes()));
      else next.push_back(node.operands[0]);
      continue;
    }
    const Rule rule = RuleOf(placed, node);
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (placed.value(node.operands[i]).type.shape == shape && IsElementwise(node, rule, i))
        next.push_back(node.operands[i]);
  }
  return axes;
}

// Cuts a layout by more axes, evenly.
class Cutter {
 public:
  Cutter(Layout layout, Shape shape) : layout_(std::move(layout)), shape_(std::move(shape)) {}

  // The layout in which all axes cut one dim. If that cannot be and axes may cut `apart`, the layout in which as many
  // axes or parts of axes as possible cut some dim; its mesh is then cut where these parts end. Nothing if no axis
  // can cut.
  std::optional<Layout> Cut(const AxisList& axes, bool apart) && {
    const Layout before = layout_;
    if (!CutBy(axes) && apart)
      for (const std::string& axis : before.mesh().NamesOf(axes)) CutBy(axis);
    if (layout_ == before) return std::nullopt;
    return layout_;
  }

 private:
  // The first dim of which every device's block can be cut into so many.
  std::optional<int> DimFor(int64_t parts) const {
    for (int d = 0; d < layout_.rank(); ++d) {
      const int64_t block = BlockSize(layout_.mesh(), layout_.dim(d), shape_[d]);
      if (block > 0 && block % parts == 0) return d;
    }
    return std::nullopt;
  }

  bool CutBy(const AxisList& axes) {
    const std::optional<int> d = DimFor(layout_.mesh().GroupSize(axes));
    if (!d.has_value()) return false;
    AxisList dim = layout_.dim(*d);
    dim.insert(dim.end(), axes.begin(), axes.end());
    layout_ = layout_.WithDim(*d, dim);
    return true;
  }

  // Cuts by the axis, or else by its largest major part that can cut a dim, and then by as much of the rest as can.
  void CutBy(const std::string& axis) {
    const int64_t size = layout_.mesh().GroupSize(layout_.mesh().FindAxes(axis).value());
    const size_t colon = axis.find(":(");
    const std::string name = axis.substr(0, colon);
    const int64_t before = colon == std::string::npos ? 1 : std::stoll(axis.substr(colon + 2));
    int64_t longest = 1;
    for (int64_t length : shape_) longest = std::max(longest, length);
    for (int64_t part = std::min(size, longest); part > 1; --part) {
      if (size % part != 0 || !DimFor(part).has_value()) continue;
      const std::string major = part == size ? axis : fmt::format("{}:({}){}", name, before, part);
      const absl::StatusOr<Mesh> mesh = layout_.mesh().Cut(major);
      if (!mesh.ok()) continue;  // it is cut otherwise
      layout_ = layout_.On(*mesh);
      CutBy(mesh->FindAxes(major).value());
      if (part < size) CutBy(fmt::format("{}:({}){}", name, before * part, size / part));
      return;
    }
  }

  Layout layout_;
  Shape shape_;
};

// How often the step is planned: more halves are not tried.
constexpr int kMostPlans = 24;

class Sharder {
 public:
  Sharder(const Graph& graph, const ShardWeightUpdateOptions& options)
      : graph_(graph), options_(options), base_(Place(graph, options)) {}

  ShardedWeightUpdate Run() {
    std::vector<WeightState> groups;
    for (WeightState& group : FindWeightStates(graph_))
      if (Admit(group)) groups.push_back(std::move(group));
    std::sort(groups.begin(), groups.end(),
              [](const WeightState& a, const WeightState& b) { return a.weight < b.weight; });
    Graph sharded = graph_;
    ShardAll(groups, sharded);
    std::vector<ShardedState> state;
    for (int a = 0; a < static_cast<int>(sharded.arguments().size()); ++a) {
      const ValueInfo& info = sharded.value(ValueOf(a));
      if (!IsState(groups, a) || !info.layout.has_value() || !info.modes.empty()) continue;
      const Layout asked = LayoutOf(a).On(sharded.mesh()), lies = info.layout->WithoutTrivialAxes();
      if (lies != asked) state.push_back({info.name, asked, lies});
    }
    return {std::move(sharded), std::move(state)};
  }

 private:
  // The layout of an argument without sharding.
  const Layout& LayoutOf(int argument) const {
    return *base_.graph.value(base_.graph.arguments()[argument].value).layout;
  }
  ValueId ValueOf(int argument) const { return graph_.arguments()[argument].value; }

  static bool IsState(const std::vector<WeightState>& groups, int argument) {
    return std::any_of(groups.begin(), groups.end(), [&](const WeightState& group) {
      return std::find(group.state.begin(), group.state.end(), argument) != group.state.end();
    });
  }

  // Whether the group can be sharded; leaves out the state that does not lie as the weight does.
  bool Admit(WeightState& group) const {
    const ValueInfo& weight = graph_.value(ValueOf(group.weight));
    const Layout& lies = LayoutOf(group.weight);
    if (weight.gather == Gathering::kOnUse || lies.is_strided()) return false;
    std::erase_if(group.state, [&](int argument) {
      const ValueInfo& info = graph_.value(ValueOf(argument));
      return info.gather == Gathering::kOnUse || info.type.shape != weight.type.shape ||
             LayoutOf(argument) != lies;
    });
    return !group.state.empty();
  }

  // Shards as many of them as can be without sending more: all, or as many of each half.
  void ShardAll(std::span<const WeightState> groups, Graph& graph) {
    if (plans_ == kMostPlans) return;
    Graph sharded = graph;
    bool any = false;
    for (const WeightState& group : groups) any |= Shard(group, sharded);
    if (!any) return;
    if (IsNoDearer(sharded)) {
      graph = std::move(sharded);
    } else if (groups.size() > 1) {
      ShardAll(groups.first(groups.size() / 2), graph);
      ShardAll(groups.subspan(groups.size() / 2), graph);
    }
  }

  // False if nothing can be cut.
  bool Shard(const WeightState& group, Graph& graph) const {
    const ValueId weight = ValueOf(group.weight);
    const Layout& lies = LayoutOf(group.weight);
    const AxisSet axes = SummedOver(base_.graph, group).Minus(lies.ShardedAxes());
    if (axes.empty()) return false;
    const Mesh before = graph.mesh();
    const std::optional<Layout> layout =
        Cutter(lies.On(before), graph.value(weight).type.shape)
            .Cut(base_.graph.mesh().On(before, axes.ToList()), IsLarge(weight, lies, axes.ToList()));
    if (!layout.has_value()) return false;
    graph.CutMesh(layout->mesh());
    for (int argument : group.state) Pin(ValueOf(argument), *layout, graph);
    const ValueInfo& info = graph.value(weight);
    if (!info.layout.has_value() || !info.modes.empty()) Pin(weight, lies.On(graph.mesh()), graph);
    // The new weight is gathered once it is computed, not what it is computed from.
    for (const VariableUpdate& update : graph.updates())
      if (update.argument == group.weight && graph.value(update.value).node >= 0 &&
          !graph.value(update.value).layout.has_value())
        Pin(update.value, *layout, graph);
    return true;
  }

  // Whether sending the weight takes longer than the latency of a message. Collectives along parts of the axes are
  // joined with no others, so for a smaller weight they would cost mostly latency.
  bool IsLarge(ValueId weight, const Layout& lies, const AxisList& axes) const {
    const std::vector<Link> links = options_.topology.LinksOf(lies.mesh());
    Link slowest = links[axes[0]];
    for (int axis : axes) slowest = Slowest(slowest, links[axis]);
    const Type& type = graph_.value(weight).type;
    const Type block = {type.dtype, lies.LocalShape(type.shape)};
    return static_cast<double>(block.bytes()) / slowest.bandwidth >= slowest.latency;
  }

  static void Pin(ValueId id, const Layout& layout, Graph& graph) {
    graph.mutable_value(id).layout = layout;
    graph.mutable_value(id).modes.clear();
  }

  bool IsNoDearer(const Graph& graph) {
    ++plans_;
    const Placed placed = Place(graph, options_);
    return placed.bytes <= base_.bytes && placed.refused <= base_.refused;
  }

  const Graph& graph_;
  const ShardWeightUpdateOptions& options_;
  Placed base_;
  int plans_ = 0;
};

}  // namespace

ShardedWeightUpdate ShardWeightUpdate(const Graph& graph, const ShardWeightUpdateOptions& options) {
  return Sharder(graph, options).Run();
}

Graph WithShardedState(const Graph& global, const Program& program) {
  Graph graph = global;
  if (!program.sharded_state.empty()) graph.CutMesh(program.sharded_state[0].layout.mesh());
  for (const ShardedState& state : program.sharded_state) {
    ValueInfo& info = graph.mutable_value(graph.arguments()[graph.FindArgument(state.variable)].value);
    info.layout = state.layout;
    info.modes.clear();
  }
  return graph;
}

}  // namespace meshwork
