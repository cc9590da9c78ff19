#include "meshwork/spmd/auto/auto_layouts.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/move_seconds.h"
#include "meshwork/spmd/planner/solve_layouts.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/refused_gathers.h"
#include "meshwork/spmd/rewrite/simplify.h"

namespace meshwork {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
// How often the price of memory is raised until a plan fits, by which factor, and how often it is then halved.
constexpr int kRaises = 10, kHalvings = 3;
constexpr double kRaise = 8;
constexpr int kMostRefusals = 3;  // rounds in which gathers are allowed; one round may need another
constexpr size_t kMostSteps = 3;  // times each set of axes
// A byte that is held costs at least this part of a byte that is sent: so, of layouts that take the same time, those
// that need less memory are found.
constexpr double kHeldByte = 1e-3;
constexpr size_t kMostThorough = 3;   // axes of a mesh on which OpenAxes::is_thorough holds
constexpr double kBetter = 1 - 1e-4;  // a cost that is not less by this factor is not worth another search

bool IsPinned(const ValueInfo& info) {
  return info.layout.has_value() && LayoutPin{*info.layout, info.modes}.is_locked();
}

bool Fits(const FoundLayouts& plan, int64_t budget) { return budget == 0 || plan.cost.peak_bytes <= budget; }

// Searches for layouts of one program.
class LayoutFinder {
 public:
  LayoutFinder(const Graph& graph, const CompileOptions& options)
      : graph_(graph),
        options_(options),
        budget_(options.memory_budget),
        opened_(graph.mesh()),
        propagated_(graph.mesh()) {
    options_.verify = false;
    options_.dump = nullptr;
    options_.memory_budget = 0;
    opened_ = FoldSizes(graph, &to_opened_);
    std::vector<OpenedLoop> loops;
    if (HasLoops(opened_)) {
      OpenedGraph opened = OpenLoops(opened_);
      loops = std::move(opened.loops);
      opened_ = std::move(opened.graph);
    }
    is_opened_ = !loops.empty();
    is_solvable_ = true;
    propagated_ = Propagate(opened_).graph;
    choices_ = ChooseCuts(propagated_, options_.topology, Replication());
    fold_ = RepeatsOf(opened_, propagated_, choices_, Replication());
    work_.emplace(kWorkOfPlan, fold_.first.size());
  }

  absl::StatusOr<std::vector<FoundLayouts>> Run() {
    double bandwidth = 0;
    for (const Link& link : options_.topology.LinksOf(graph_.mesh()))
      bandwidth = std::max(bandwidth, link.bandwidth);
    const double cheapest = kHeldByte / (bandwidth > 0 ? bandwidth : Topology::kAssumedLink.bandwidth);
    MESHWORK_ASSIGN_OR_RETURN(FoundLayouts first, At(cheapest));
    const double price =
        std::max(kRaise * cheapest,
                 first.seconds() / static_cast<double>(std::max<int64_t>(1, first.cost.peak_bytes)));
    std::vector<FoundLayouts> found;
    found.push_back(std::move(first));
    const auto fits = [&](const FoundLayouts& plan) { return Fits(plan, budget_); };
    if (is_solvable_) {
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
    if (budget_ > 0) AddFitted(found);
    return found;
  }

 private:
  // Plans again, to fit, those plans that need too much memory. Adds those that are then faster than all plans that
  // fit.
  void AddFitted(std::vector<FoundLayouts>& found) {
    CompileOptions within = options_;
    within.memory_budget = budget_;
    double least = std::numeric_limits<double>::infinity();
    for (const FoundLayouts& plan : found)
      if (Fits(plan, budget_)) least = std::min(least, plan.seconds());
    for (size_t i = 0, size = found.size(); i < size; ++i) {
      if (Fits(found[i], budget_) || found[i].seconds() >= least) continue;
      const absl::StatusOr<Program> program = CompileWith(found[i].graph, within, {.work = &*work_});
      if (!program.ok()) continue;
      FoundLayouts fitted = found[i];
      fitted.is_fitted = true;
      SetCost(*program, fitted);
      if (fitted.seconds() >= least) continue;
      least = fitted.seconds();
      found.push_back(std::move(fitted));
    }
  }

  void SetCost(const Program& program, FoundLayouts& plan) const {
    plan.cost = CostOf(program.body, options_.topology);
    plan.cost.seconds = LinkSeconds(plan.cost, options_.topology);
    plan.compute_seconds = CountFlops(program.body) / options_.topology.flops();
  }

  // The plan at a price, in seconds, of a byte that a device holds.
  absl::StatusOr<FoundLayouts> At(double price) {
    std::optional<SolvedLayouts> solved = is_solvable_ ? Solve(price) : std::nullopt;
    FoundLayouts found{.graph = graph_, .gap = 1};
    if (solved.has_value()) found.gap = solved->cost > 0 ? 1 - solved->lower_bound / solved->cost : 0;
    const Graph& laid_out = solved.has_value() ? solved->propagated : propagated_;
    const std::vector<bool> gathered = solved.has_value() ? Gathered(*solved) : std::vector<bool>();
    for (size_t i = 0; i < graph_.arguments().size(); ++i) {
      const Argument& argument = graph_.arguments()[i];
      ValueInfo& info = found.graph.mutable_value(argument.value);
      if (IsPinned(info)) continue;
      const ValueId there = opened_.arguments()[i].value;
      info.layout = laid_out.value(there).layout;
      info.modes.clear();
      const bool gathers = argument.is_variable && solved.has_value() && gathered[there];
      if (gathers) info.gather = Gathering::kOnUse;
      found.pins.push_back({info.name, info.layout->ToString(), gathers});
    }
    if (solved.has_value() && !is_opened_) PinValues(*solved, found.graph);
    AllowGathers(found.graph);
    MESHWORK_ASSIGN_OR_RETURN(const Program program, CompileWith(found.graph, options_, {.work = &*work_}));
    SetCost(program, found);
    if (solved.has_value()) last_ = std::move(solved);
    return found;
  }

  // Axes that are open, and which of them cut only together.
  struct Opening {
    AxisSet axes;
    std::vector<AxisList> joined = {};
  };

  // The result of a search. Its lower bound holds only if no layouts were left out and no other search has found
  // something better.
  struct Known {
    explicit Known(const std::optional<SolvedLayouts>& found)
        : of_all(found.has_value() && !found->is_cut_off),
          cost(of_all ? found->cost : 0),
          lower_bound(of_all ? found->lower_bound : 0) {}

    bool of_all;
    double cost, lower_bound;
  };

  // Returns the best result of several searches. The first one takes all axes as one; if there are more than two, the
  // next ones take them as two. Then come the pairs of axes, each as if the others were not there; or the single axes,
  // if pairs are too much or find nothing better. The last search takes all axes at once, starting from the best
  // results so far, if that is not too much. Once the work is spent, there is only a last search from the result at
  // another price.
  std::optional<SolvedLayouts> Solve(double price) {
    const AxisList axes = AxesThatCut(graph_.mesh());
    const bool is_single = axes.size() < 2;
    std::vector<Opening> pairs, single;
    for (size_t i = 0; i < axes.size(); ++i) {
      single.push_back({AxisSet(AxisList{axes[i]})});
      for (size_t j = 0; j < i; ++j) pairs.push_back({AxisSet(AxisList{axes[j], axes[i]})});
    }
    if (work_->is_spent() && last_.has_value()) {
      std::optional<SolvedLayouts> near = Descend({{AxisSet(axes)}}, price, &*last_, &*last_);
      if (!near.has_value()) near = last_;
      near->lower_bound = std::min(LeastArithmetic(), near->cost);
      return near;
    }
    std::optional<SolvedLayouts> best;
    const auto keep = [&](std::optional<SolvedLayouts> of) {
      if (of.has_value() && (!best.has_value() || of->cost < best->cost)) best = std::move(of);
    };
    if (!is_single) keep(Descend({{AxisSet(axes), {axes}}}, price, Start(std::nullopt)));
    for (auto second = axes.begin() + 1; axes.size() > 2 && second != axes.end(); ++second)
      keep(Descend({{AxisSet(axes), {AxisList(axes.begin(), second), AxisList(second, axes.end())}}}, price,
                   Start(best)));
    std::optional<SolvedLayouts> found = Descend(is_single ? single : pairs, price, Start(best));
    Known known(found);
    const bool is_known =
        is_single ||
        (found.has_value() && (found->is_optimal || !best.has_value() || found->cost < best->cost * kBetter));
    if (!is_known) keep(Descend(single, price, Start(std::nullopt)));
    if (axes.size() > 2) known = Known(std::nullopt);
    // All axes at once, from the best result so far, and from that of pairs: each time among layouts that are near
    // those found before.
    std::vector<SolvedLayouts> starts;
    for (const std::optional<SolvedLayouts>* start : {&best, &found})
      if (axes.size() > 2 && start->has_value()) starts.push_back(**start);
    keep(std::move(found));
    for (SolvedLayouts& at : starts) {
      for (size_t i = 0; i < kMostSteps; ++i) {
        std::optional<SolvedLayouts> next = Descend({{AxisSet(axes)}}, price, &at, &at);
        if (!next.has_value()) break;
        if (next->cost * kLess <= best->cost) known = Known(next);
        const bool is_better = next->cost < at.cost * kLess;
        if (is_better) at = *next;
        keep(std::move(next));
        if (!is_better) break;
      }
    }
    if (!best.has_value()) return best;
    const bool knows_all = known.of_all && known.cost * kLess <= best->cost;
    best->lower_bound = std::min(knows_all ? known.lower_bound : LeastArithmetic(), best->cost);
    return best;
  }

  // Where a search starts: at the best result that is known, else at the result at another price.
  const SolvedLayouts* Start(const std::optional<SolvedLayouts>& best) const {
    return best.has_value() ? &*best : last_.has_value() ? &*last_ : nullptr;
  }

  // Lays values out along each set of axes in turn, keeping what was found along the others, until no set lowers the
  // cost. from: the layouts that values have before; null: those of Propagate.
  std::optional<SolvedLayouts> Descend(const std::vector<Opening>& sets, double price,
                                       const SolvedLayouts* start, const SolvedLayouts* from = nullptr) {
    Graph laid_out = opened_, propagated = propagated_;
    std::vector<std::optional<Choice>> choices = choices_;
    if (from != nullptr) {
      PinAs(*from, laid_out);
      propagated = Propagate(laid_out).graph;
      choices = ChooseCuts(propagated, options_.topology, Replication());
    }
    std::optional<SolvedLayouts> best;
    AxisSet seen;
    size_t failures = 0;
    for (size_t step = 0; failures < sets.size() && step < kMostSteps * sets.size(); ++step) {
      const Opening& opening = sets[step % sets.size()];
      SolveOptions options{
          .open = {.arguments = opening.axes,
                   .fixed = seen.Minus(opening.axes),
                   .joined = opening.joined,
                   .is_thorough = AxesThatCut(graph_.mesh()).size() <= kMostThorough,
                   .pool = &pool_},
          .byte_seconds = price,
          .may_compute_more = true,
          .counts_all = true,
          .fold = &fold_,
          .work = &*work_,
          .max_entries = IsStart(opening) ? kSolverEntriesOfStart : std::numeric_limits<double>::infinity(),
          .start = best.has_value() ? &*best : start};
      const auto solve = [&] {
        return SolveLayouts(opened_, propagated, choices, options_.topology, Replication(), options);
      };
      std::optional<SolvedLayouts> found = solve();
      if (!found.has_value() && std::exchange(options.open.is_thorough, false)) found = solve();
      seen = seen.Union(opening.axes);
      ++failures;
      if (!found.has_value() || (best.has_value() && found->cost >= best->cost * kBetter)) continue;
      const bool is_better = found->is_better;
      best = std::move(found);
      if (!is_better) continue;
      failures = 1;
      if (sets.size() == 1) break;
      PinAs(*best, laid_out);
      propagated = Propagate(laid_out).graph;
      choices = ChooseCuts(propagated, options_.topology, Replication());
    }
    return best;
  }

  bool IsStart(const Opening& open) const {
    const AxisList axes = AxesThatCut(graph_.mesh());
    return axes.size() > 2 && (!open.joined.empty() || open.axes.ToList() != axes);
  }

  double LeastArithmetic() const {
    const std::vector<int64_t> runs = RunsOf(opened_);
    double flops = 0;
    for (size_t n = 0; n < runs.size(); ++n)
      if (const Node& node = opened_.nodes()[n]; node.row->name != "relayout")
        flops += static_cast<double>(runs[n]) * FlopsOf(opened_, node);
    return flops / options_.topology.flops() / static_cast<double>(graph_.mesh().num_devices());
  }

  // laid_out: becomes the program in which values that nobody has pinned have the layouts found.
  void PinAs(const SolvedLayouts& found, Graph& laid_out) const {
    laid_out = opened_;
    for (ValueId id = 0; id < static_cast<ValueId>(opened_.values().size()); ++id) {
      const ValueInfo& info = opened_.value(id);
      const bool is_relayout = info.node >= 0 && opened_.nodes()[info.node].row->name == "relayout";
      const Layout& layout = *found.propagated.value(id).layout;
      if (IsPinned(info) || is_relayout || layout.is_partial()) continue;
      laid_out.mutable_value(id).layout = layout;
      laid_out.mutable_value(id).modes.clear();
    }
  }

  // Pins the values that would have other layouts by the arguments' pins alone.
  void PinValues(const SolvedLayouts& solved, Graph& graph) const {
    const Graph guessed = Propagate(FoldSizes(graph)).graph;
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id) {
      ValueInfo& info = graph.mutable_value(id);
      if (info.node < 0 || info.layout.has_value() || graph.nodes()[info.node].row->name == "relayout")
        continue;
      const ValueId there = to_opened_[id];
      const Layout& layout = *solved.propagated.value(there).layout;
      if (layout.is_partial() || layout == *guessed.value(there).layout || opened_.value(there).node < 0 ||
          opened_.value(there).type != info.type)
        continue;
      info.layout = layout;
    }
  }

  // Marks the values that the found layouts gather with gather=allowed.
  void AllowGathers(Graph& graph) const {
    for (int round = 0; round < kMostRefusals; ++round) {
      std::vector<ValueId> to;
      Graph opened = FoldSizes(graph, &to);
      if (is_opened_) opened = OpenLoops(opened).graph;
      const std::vector<RefusedGather> refused =
          InsertRelayouts(Propagate(opened).graph, options_.topology,
                          Replication(opened, options_.replication_budget))
              .refused;
      if (refused.empty()) return;
      std::vector<bool> is_allowed(opened.values().size(), false);
      for (const RefusedGather& gather : refused) is_allowed[gather.value] = true;
      if (is_opened_) {
        for (size_t i = 0; i < graph.arguments().size(); ++i)
          if (is_allowed[opened.arguments()[i].value])
            graph.mutable_value(graph.arguments()[i].value).gather = Gathering::kAllowed;
        continue;
      }
      for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id)
        if (is_allowed[to[id]]) graph.mutable_value(id).gather = Gathering::kAllowed;
    }
  }

  // Per value, whether it is a variable that an op, other than its update, reads on fewer axes than it is kept on.
  std::vector<bool> Gathered(const SolvedLayouts& solved) const {
    std::vector<bool> gathered(opened_.values().size(), false);
    std::vector<ValueId> updates(opened_.values().size(), kNoValue);  // per value: the variable that gets it
    for (const VariableUpdate& update : opened_.updates())
      updates[update.value] = opened_.arguments()[update.argument].value;
    for (size_t n = 0; n < solved.choices.size(); ++n) {
      const Node& node = opened_.nodes()[n];
      for (size_t i = 0; solved.choices[n].has_value() && i < node.operands.size(); ++i) {
        const ValueId id = node.operands[i];
        const bool is_update = std::any_of(node.results.begin(), node.results.end(),
                                           [&](ValueId result) { return updates[result] == id; });
        const AxisSet kept = solved.propagated.value(id).layout->ShardedAxes();
        if (!is_update && !kept.Minus(solved.choices[n]->operands[i].ShardedAxes()).empty())
          gathered[id] = true;
      }
    }
    return gathered;
  }

  const Graph& graph_;
  CompileOptions options_;
  const int64_t budget_;
  std::vector<ValueId> to_opened_;  // per value of the program, without loops: its value in opened_
  Graph opened_, propagated_;
  bool is_opened_ = false, is_solvable_ = false;
  std::vector<std::optional<Choice>> choices_;
  Fold fold_;
  CutPool pool_;
  std::optional<SearchWork> work_;
  std::optional<SolvedLayouts> last_;  // at another price
};

}  // namespace

bool operator<(const FoundLayouts& a, const FoundLayouts& b) {
  const auto rank = [](const FoundLayouts& plan) {
    return std::tuple(plan.seconds(), plan.cost.peak_bytes, plan.cost);
  };
  return rank(a) < rank(b);
}

absl::StatusOr<std::vector<FoundLayouts>> FindLayouts(const Graph& graph, const CompileOptions& options,
                                                      const FindLayoutsOptions& find) {
  MESHWORK_RETURN_IF_ERROR(graph.status());
  MESHWORK_RETURN_IF_ERROR(options.topology.CheckDescribes(graph.mesh()));
  if (find.most < 1) return InvalidArgument("FindLayouts: most={}; ask for at least one plan.", find.most);
  MESHWORK_ASSIGN_OR_RETURN(std::vector<FoundLayouts> all, LayoutFinder(graph, options).Run());
  int64_t least = kNoLimit;
  for (const FoundLayouts& plan : all) least = std::min(least, plan.cost.peak_bytes);
  std::erase_if(all, [&](const FoundLayouts& plan) { return !Fits(plan, options.memory_budget); });
  if (all.empty())
    return absl::ResourceExhaustedError(fmt::format(
        "FindLayouts: a device may hold {} B, and the layouts that need the least memory, of those that were "
        "tried, take {} B; planned again for that memory, none fit. Give more memory or more devices.",
        options.memory_budget, least));
  std::stable_sort(all.begin(), all.end());
  std::vector<FoundLayouts> found;
  for (FoundLayouts& plan : all) {
    const bool is_new = std::none_of(found.begin(), found.end(),
                                     [&](const FoundLayouts& other) { return other.pins == plan.pins; });
    if (is_new && static_cast<int>(found.size()) < find.most) found.push_back(std::move(plan));
  }
  return found;
}

}  // namespace meshwork
