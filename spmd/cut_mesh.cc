#include "meshwork/spmd/cut_mesh.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/reshape.h"
#include "meshwork/spmd/plan_step.h"
#include "meshwork/spmd/propagate.h"

namespace meshwork {
namespace {

// A cut lets axes flow on to the next reshape, which may want another cut. Few programs need more rounds than this.
constexpr int kMaxCutRounds = 4;
// The most cuts: each is tried by itself.
constexpr size_t kMaxCuts = 8;

// The name of the first `size` devices of an axis: "x:(1)2" of "x", "x:(2)2" of "x:(2)4".
std::string FirstPart(const std::string& axis, int64_t size) {
  const size_t end = axis.find(')');
  return end == std::string::npos ? fmt::format("{}:(1){}", axis, size)
                                  : fmt::format("{}{}", axis.substr(0, end + 1), size);
}

// The parts of axes that reshapes of a propagated program want, in its order.
class Wishes {
 public:
  explicit Wishes(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes())
      if (node.row->name == "reshape") Visit(node);
  }

  const std::vector<std::string>& names() const { return names_; }

 private:
  void Visit(const Node& node) {
    const ValueInfo &from = graph_.value(node.operands[0]), &to = graph_.value(node.results[0]);
    const bool is_sharded = !from.layout->ShardedAxes().empty() || !to.layout->ShardedAxes().empty();
    if (!is_sharded || from.type.num_elements() == 0 ||
        Reshaped(*from.layout, from.type.shape, to.type.shape) == to.layout)
      return;
    for (const ReshapeGroup& group : ReshapeGroups(from.type.shape, to.type.shape)) {
      if (group.is_single()) continue;
      Follow(from, group.from, group.from_end, to, group.to, group.to_end);
      Follow(to, group.to, group.to_end, from, group.from, group.from_end);
    }
  }

  // Dims [to_begin, to_end) of `to` hold the elements of dims [begin, end) of `from`.
  void Follow(const ValueInfo& from, int begin, int end, const ValueInfo& to, int to_begin, int to_end) {
    FactorList factors;
    for (int d = begin; d < end; ++d)
      for (Factor& factor : from.layout->Factors(d, from.type.shape[d])) factors.push_back(std::move(factor));
    const std::span sizes(to.type.shape.begin() + to_begin, static_cast<size_t>(to_end - to_begin));
    const std::optional<AxisCut> cut = CutForReshape(graph_.mesh(), factors, sizes);
    if (!cut.has_value()) return;
    std::string name = FirstPart(graph_.mesh().axis(cut->axis).name, cut->size);
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(std::move(name));
  }

  const Graph& graph_;
  std::vector<std::string> names_;
};

// The mesh with all of these cuts that do not clash with earlier ones.
Mesh WithCuts(Mesh mesh, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (absl::StatusOr<Mesh> finer = mesh.Cut(name); finer.ok()) mesh = *std::move(finer);
  return mesh;
}

Graph CutTo(Graph graph, const Mesh& finer) {
  graph.CutMesh(finer);
  return graph;
}

// All cuts that reshapes want, including those that they want only once other cuts are made.
std::vector<std::string> AllWishes(const Graph& pinned, const Graph& propagated) {
  std::vector<std::string> all = Wishes(propagated).names();
  Mesh mesh = pinned.mesh();
  for (int round = 0; round < kMaxCutRounds && all.size() < kMaxCuts; ++round) {
    Mesh finer = WithCuts(pinned.mesh(), all);
    if (finer == mesh) break;
    mesh = std::move(finer);
    const Graph further = Propagate(CutTo(pinned, mesh)).graph;
    const Wishes more(further);
    all.insert(all.end(), more.names().begin(), more.names().end());
  }
  if (all.size() > kMaxCuts) all.resize(kMaxCuts);
  return all;
}

}  // namespace

std::optional<Graph> CutMesh(const Graph& pinned, const Graph& propagated, const StepPlanning& planning) {
  std::vector<std::string> cuts = AllWishes(pinned, propagated);
  Mesh mesh = WithCuts(pinned.mesh(), cuts);
  if (mesh == pinned.mesh()) return std::nullopt;
  // Which cuts, the seed says; whether they pay, the search.
  StepPlanning by_seed = planning;
  by_seed.searches = false;
  const auto cost_on = [&](const Mesh& tried, const StepPlanning& how) {
    const Graph cut = CutTo(pinned, tried);
    return PlanCost(cut, Propagate(cut).graph, how);
  };
  StepCost least = cost_on(mesh, by_seed);
  // Begins with the last cut: a cut that an earlier one has led to is of no use without the earlier one.
  for (size_t i = cuts.size(); i-- > 0 && cuts.size() > 1;) {
    std::vector<std::string> fewer = cuts;
    fewer.erase(fewer.begin() + static_cast<int64_t>(i));
    Mesh coarser = WithCuts(pinned.mesh(), fewer);
    const StepCost cost = cost_on(coarser, by_seed);
    if (least < cost) continue;
    least = cost;
    mesh = std::move(coarser);
    cuts = std::move(fewer);
  }
  if (planning.searches) least = cost_on(mesh, planning);
  if (!(least < PlanCost(pinned, propagated, planning))) return std::nullopt;
  return CutTo(pinned, mesh);
}

bool MayCutMesh(const Graph& graph) {
  const Mesh& mesh = graph.mesh();
  const auto has_parts = [&](int64_t size) {
    for (int64_t i = 2; i <= size / i; ++i)
      if (size % i == 0) return true;
    return false;
  };
  bool has_axis = false;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) has_axis |= has_parts(mesh.axis(axis).size);
  if (!has_axis) return false;
  const auto is_even = [&](const Shape& shape, int begin, int end) {
    return std::all_of(shape.begin() + begin, shape.begin() + end,
                       [&](int64_t size) { return size % mesh.num_devices() == 0; });
  };
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    if (node.row->name != "reshape") return false;
    const Shape& from = graph.value(node.operands[0]).type.shape;
    const Shape& to = graph.value(node.results[0]).type.shape;
    if (NumElements(from) == 0) return false;
    const std::vector<ReshapeGroup> groups = ReshapeGroups(from, to);
    return std::any_of(groups.begin(), groups.end(), [&](const ReshapeGroup& group) {
      return !group.is_single() &&
             !(is_even(from, group.from, group.from_end) && is_even(to, group.to, group.to_end));
    });
  });
}

}  // namespace meshwork
