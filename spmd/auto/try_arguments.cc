#include "meshwork/spmd/auto/try_arguments.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/move_seconds.h"

namespace meshwork {
namespace {

constexpr size_t kMostTriedAxes = 3;  // of a mesh: on more there are too many layouts to list
constexpr int64_t kLeastNodes = 8;    // a compile of a smaller program counts as one of so many ops

// Every layout of even blocks: each axis cuts one dim or none, and axes of one dim stand in any order.
std::vector<Layout> EvenLayouts(const Mesh& mesh, const Shape& shape) {
  std::vector<std::vector<AxisList>> all = {std::vector<AxisList>(shape.size())};
  for (int axis : AxesThatCut(mesh)) {
    for (size_t i = 0, count = all.size(); i < count; ++i) {
      for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] % (mesh.GroupSize(all[i][d]) * mesh.axis(axis).size) != 0) continue;
        for (size_t at = 0; at <= all[i][d].size(); ++at) {
          std::vector<AxisList> more = all[i];
          more[d].insert(more[d].begin() + static_cast<int64_t>(at), axis);
          all.push_back(std::move(more));
        }
      }
    }
  }
  std::vector<Layout> layouts;
  for (std::vector<AxisList>& dims : all) layouts.emplace_back(mesh, std::move(dims));
  return layouts;
}

class ArgumentTrials {
 public:
  ArgumentTrials(const Graph& graph, const Graph& from, const CompileOptions& options, int64_t most,
                 SearchWork& work)
      : graph_(graph), from_(from), options_(options), left_(most), work_(work) {}

  TriedArguments Run() && {
    if (graph_.nodes().size() > kFewOps || AxesThatCut(graph_.mesh()).size() > kMostTriedAxes || left_ <= 0)
      return {};
    ListOpen();
    double all = 1;
    for (const Open& open : open_) all *= static_cast<double>(open.layouts.size());
    if (all * static_cast<double>(NodesOf(graph_)) <= static_cast<double>(left_)) {
      TryAll(0, graph_);
      best_.has_tried_all = !is_refused_;
    } else {
      Descend();
    }
    return std::move(best_);
  }

 private:
  struct Open {
    ValueId id;
    std::vector<Layout> layouts;
  };

  void ListOpen() {
    for (const Argument& argument : graph_.arguments()) {
      const ValueInfo& info = graph_.value(argument.value);
      const std::optional<LayoutPin> pin =
          info.layout.has_value() ? std::optional(LayoutPin{*info.layout, info.modes}) : std::nullopt;
      if (pin.has_value() && pin->is_locked()) continue;
      std::vector<Layout> layouts = EvenLayouts(graph_.mesh(), info.type.shape);
      std::erase_if(layouts, [&](const Layout& layout) {
        for (int d = 0; pin.has_value() && d < layout.rank(); ++d)
          if (pin->mode(d) == DimMode::kLocked && layout.dim(d) != pin->layout.dim(d)) return true;
        return false;
      });
      open_.push_back({argument.value, std::move(layouts)});
    }
  }

  static int64_t NodesOf(const Graph& graph) {
    return std::max<int64_t>(kLeastNodes, std::ssize(graph.nodes()));
  }

  static void Pin(ValueId id, const Layout& layout, Graph& graph) {
    graph.mutable_value(id).layout = layout;
    graph.mutable_value(id).modes.clear();
  }

  void TryAll(size_t i, Graph pinned) {
    if (i == open_.size()) {
      Try(pinned);
      return;
    }
    for (const Layout& layout : open_[i].layouts) {
      Pin(open_[i].id, layout, pinned);
      TryAll(i + 1, pinned);
    }
  }

  // The excess of memory first, then the time.
  using Rank = std::tuple<int64_t, double, int64_t>;

  // Changes one argument at a time, as long as this makes the step better.
  void Descend() {
    Graph at = graph_;
    for (const Open& open : open_) Pin(open.id, from_.value(open.id).layout.value_or(open.layouts[0]), at);
    Rank rank = Try(at);
    for (size_t i = 0, since = 0; since < open_.size() && left_ > 0; i = (i + 1) % open_.size(), ++since) {
      Graph better = at;
      for (const Layout& layout : open_[i].layouts) {
        if (left_ <= 0 || layout == *at.value(open_[i].id).layout) continue;
        Graph other = at;
        Pin(open_[i].id, layout, other);
        const Rank of_other = Try(other);
        if (!(of_other < rank)) continue;
        rank = of_other;
        better = std::move(other);
        since = 0;
      }
      at = std::move(better);
    }
  }

  Rank Try(const Graph& pinned) {
    constexpr auto kNone = std::numeric_limits<int64_t>::max();
    left_ -= NodesOf(pinned);
    const absl::StatusOr<CompiledStep> step = CompileStep(pinned, options_, &work_);
    if (!step.ok()) {
      const bool is_too_large = options_.memory_budget > 0 && absl::IsResourceExhausted(step.status());
      is_refused_ |= !is_too_large;
      if (!is_too_large) return {kNone, 0, 0};
      CompileOptions without = options_;
      without.memory_budget = 0;
      left_ -= NodesOf(pinned);
      const absl::StatusOr<CompiledStep> larger = CompileStep(pinned, without, &work_);
      if (!larger.ok()) return {kNone, 0, 0};
      return {larger->cost.peak_bytes - options_.memory_budget, larger->seconds(), 0};
    }
    const bool is_better = !best_.graph.has_value() || step->seconds() < best_.step.seconds() * kLess ||
                           (step->seconds() * kLess <= best_.step.seconds() &&
                            step->cost.peak_bytes < best_.step.cost.peak_bytes);
    if (is_better) {
      best_.graph = pinned;
      best_.step = *step;
    }
    return {0, step->seconds(), step->cost.peak_bytes};
  }

  const Graph& graph_;
  const Graph& from_;
  const CompileOptions& options_;
  std::vector<Open> open_;
  int64_t left_;  // ops that may yet be compiled
  SearchWork& work_;
  bool is_refused_ = false;  // some layouts
  TriedArguments best_;
};

}  // namespace

absl::StatusOr<CompiledStep> CompileStep(const Graph& graph, const CompileOptions& options,
                                         SearchWork* work) {
  MESHWORK_ASSIGN_OR_RETURN(const Program program, CompileWith(graph, options, {.work = work}));
  return CompiledStepOf(program, options.topology);
}

CompiledStep CompiledStepOf(const Program& program, const Topology& topology) {
  CompiledStep step{.cost = CostOf(program.body, topology)};
  step.cost.seconds = LinkSeconds(step.cost, topology);
  step.compute_seconds = CountFlops(program.body) / topology.flops();
  step.is_fitted = std::any_of(program.passes.begin(), program.passes.end(),
                               [](const PassTiming& pass) { return pass.pass == "fit_memory"; });
  return step;
}

TriedArguments TryArguments(const Graph& graph, const Graph& from, const CompileOptions& options,
                            int64_t most, SearchWork& work) {
  return ArgumentTrials(graph, from, options, most, work).Run();
}

}  // namespace meshwork
