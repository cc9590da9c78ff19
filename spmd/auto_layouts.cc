#include "meshwork/spmd/auto_layouts.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/control/loops.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/choose_cuts.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/simplify.h"
#include "meshwork/spmd/solve_layouts.h"

namespace meshwork {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
// How often the price of memory is raised until a plan fits, by which factor, and how often it is then halved.
constexpr int kRaises = 10, kHalvings = 3;
constexpr double kRaise = 8;
// Of layouts that take the same time, those that need less memory: a byte that is held costs this part of a byte that is
// sent.
constexpr double kHeldByte = 1e-3;

// Searches for layouts of one program.
class LayoutFinder {
 public:
  LayoutFinder(const Graph& graph, const CompileOptions& options)
      : graph_(graph), options_(options), opened_(graph.mesh()), propagated_(graph.mesh()) {
    options_.verify = false;
    options_.dump = nullptr;
    // Found layouts are asked for, as those of a user are.
    options_.replication_budget = kNoLimit;
    opened_ = FoldSizes(graph, &to_opened_);
    if (HasLoops(opened_)) {
      OpenedGraph opened = OpenLoops(opened_);
      has_manual_ = std::any_of(opened.loops.begin(), opened.loops.end(),
                                [](const OpenedLoop& loop) { return IsManual(loop.node); });
      opened_ = std::move(opened.graph);
      is_opened_ = true;
    }
    propagated_ = Propagate(opened_).graph;
    choices_ = ChooseCuts(propagated_, options_.topology, Replication());
  }

  absl::StatusOr<std::vector<FoundLayouts>> Run(int most) {
    const int64_t budget = options_.memory_budget;
    options_.memory_budget = 0;
    double bandwidth = 0;
    for (const Link& link : options_.topology.LinksOf(graph_.mesh()))
      bandwidth = std::max(bandwidth, link.bandwidth);
    const double cheapest = kHeldByte / (bandwidth > 0 ? bandwidth : Topology::kAssumedLink.bandwidth);
    MESHWORK_ASSIGN_OR_RETURN(FoundLayouts first, At(cheapest));
    const double price = std::max(
        kRaise * cheapest, first.seconds() / static_cast<double>(std::max<int64_t>(1, first.cost.peak_bytes)));
    std::vector<FoundLayouts> found;
    found.push_back(std::move(first));
    const auto fits = [&](const FoundLayouts& plan) { return budget == 0 || plan.cost.peak_bytes <= budget; };
    if (!has_manual_) {
      double low = cheapest, high = price / kRaise;
      for (int i = 0; i < kRaises && !fits(found.back()); ++i) {
        low = i == 0 ? cheapest : high;
        high *= kRaise;
        MESHWORK_ASSIGN_OR_RETURN(FoundLayouts dearer, At(high));
        found.push_back(std::move(dearer));
      }
      for (int i = 0; i < kHalvings && high > price / kRaise && fits(found.back()); ++i) {
        const double middle = (low + high) / 2;
        MESHWORK_ASSIGN_OR_RETURN(FoundLayouts between, At(middle));
        (fits(between) ? high : low) = middle;
        found.insert(found.end() - 1, std::move(between));
      }
    }
    int64_t least = kNoLimit;
    for (const FoundLayouts& plan : found) least = std::min(least, plan.cost.peak_bytes);
    std::erase_if(found, [&](const FoundLayouts& plan) { return !fits(plan); });
    if (found.empty())
      return absl::ResourceExhaustedError(
          fmt::format("FindLayouts: a device may hold {} B, and the layouts that need the least memory, of those that "
                      "were tried, take {} B. Give more memory or more devices.",
                      budget, least));
    std::stable_sort(found.begin(), found.end(), [](const FoundLayouts& a, const FoundLayouts& b) {
      return std::pair(a.seconds(), a.cost.peak_bytes) < std::pair(b.seconds(), b.cost.peak_bytes);
    });
    const auto is_same = [](const FoundLayouts& a, const FoundLayouts& b) {
      return std::equal(a.pins.begin(), a.pins.end(), b.pins.begin(), b.pins.end(), [](const auto& x, const auto& y) {
        return x.name == y.name && x.layout == y.layout && x.gathers == y.gathers;
      });
    };
    found.erase(std::unique(found.begin(), found.end(), is_same), found.end());
    if (static_cast<int>(found.size()) > most) found.erase(found.begin() + most, found.end());
    return found;
  }

 private:
  // The plan where a byte that a device holds costs so many seconds.
  absl::StatusOr<FoundLayouts> At(double price) {
    std::optional<SolvedLayouts> solved;
    if (!has_manual_)
      solved = SolveLayouts(opened_, propagated_, choices_, options_.topology, Replication(),
                            {.opens_arguments = true, .byte_seconds = price, .max_entries = getenv("ME") ? atoll(getenv("ME")) : 20000000});
    FoundLayouts found{.graph = graph_};
    if (solved.has_value() && solved->cost > 0) found.gap = 1 - solved->lower_bound / solved->cost;
    const Graph& laid_out = solved.has_value() ? solved->propagated : propagated_;
    for (size_t i = 0; i < graph_.arguments().size(); ++i) {
      const Argument& argument = graph_.arguments()[i];
      ValueInfo& info = found.graph.mutable_value(argument.value);
      if (info.layout.has_value()) continue;
      const ValueId there = opened_.arguments()[i].value;
      info.layout = laid_out.value(there).layout;
      const bool gathers = argument.is_variable && solved.has_value() && IsGathered(there, *solved);
      if (gathers) info.gather = Gathering::kOnUse;
      found.pins.push_back({info.name, info.layout->ToString(), gathers});
    }
    if (solved.has_value() && !is_opened_) PinValues(*solved, found.graph);
    MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(found.graph, options_));
    found.cost = CostOf(program.body, options_.topology);
    if (options_.topology.is_assumed())
      found.cost.seconds = static_cast<double>(found.cost.bytes) / Topology::kAssumedLink.bandwidth;
    found.compute_seconds = CountFlops(program.body) / options_.topology.flops();
    return found;
  }

  // Values that would lie otherwise by the arguments' pins alone.
  void PinValues(const SolvedLayouts& solved, Graph& graph) const {
    const Graph guessed = Propagate(FoldSizes(graph)).graph;
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id) {
      ValueInfo& info = graph.mutable_value(id);
      if (info.node < 0 || info.layout.has_value() || graph.nodes()[info.node].row->name == "relayout") continue;
      const ValueId there = to_opened_[id];
      const Layout& layout = *solved.propagated.value(there).layout;
      if (layout.is_partial() || layout == *guessed.value(there).layout ||
          opened_.value(there).node < 0 || opened_.value(there).type != info.type)
        continue;
      info.layout = layout;
    }
  }

  // Whether an op reads the variable on fewer axes than it is kept on.
  bool IsGathered(ValueId variable, const SolvedLayouts& solved) const {
    const AxisSet kept = solved.propagated.value(variable).layout->ShardedAxes();
    for (size_t n = 0; n < solved.choices.size(); ++n) {
      const Node& node = opened_.nodes()[n];
      if (!solved.choices[n].has_value() || IsUpdateOf(node, variable)) continue;
      for (size_t i = 0; i < node.operands.size(); ++i)
        if (node.operands[i] == variable &&
            !kept.Minus(solved.choices[n]->operands[i].ShardedAxes()).empty())
          return true;
    }
    return false;
  }

  bool IsUpdateOf(const Node& node, ValueId variable) const {
    return std::any_of(opened_.updates().begin(), opened_.updates().end(), [&](const VariableUpdate& update) {
      return opened_.arguments()[update.argument].value == variable &&
             std::find(node.results.begin(), node.results.end(), update.value) != node.results.end();
    });
  }

  const Graph& graph_;
  CompileOptions options_;
  std::vector<ValueId> to_opened_;  // per value of the program, without loops: its value in opened_
  Graph opened_, propagated_;
  bool is_opened_ = false, has_manual_ = false;
  std::vector<std::optional<Choice>> choices_;
};

}  // namespace

absl::StatusOr<std::vector<FoundLayouts>> FindLayouts(const Graph& graph, const CompileOptions& options,
                                                      int most) {
  MESHWORK_RETURN_IF_ERROR(graph.status());
  MESHWORK_RETURN_IF_ERROR(options.topology.CheckDescribes(graph.mesh()));
  return LayoutFinder(graph, options).Run(most);
}

}  // namespace meshwork
