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
#include "meshwork/ops/control/live_values.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/auto/try_arguments.h"
#include "meshwork/spmd/cut_mesh.h"
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
// In the search for the lower bound, all that can be held costs at most this part of the step.
constexpr double kHeldPart = 1e-7;

bool IsPinned(const ValueInfo& info) {
  return info.layout.has_value() && LayoutPin{*info.layout, info.modes}.is_locked();
}

bool Fits(const FoundLayouts& plan, int64_t budget) { return budget == 0 || plan.cost.peak_bytes <= budget; }

// The topology without latencies; the same one if it is assumed, as its latencies do not count.
Topology WithoutLatencies(const Topology& topology, const Mesh& mesh) {
  if (topology.is_assumed()) return topology;
  const std::vector<Link> links = topology.LinksOf(mesh);
  std::vector<Topology::AxisLink> without;
  for (int axis : AxesThatCut(mesh)) without.push_back({mesh.axis(axis).name, {links[axis].bandwidth, 0}});
  return Topology::Create(mesh, without, topology.flops()).value();
}

// Searches for layouts of one program.
class LayoutFinder {
 public:
  // is_relaxed: for a lower bound (FindBound).
  LayoutFinder(const Graph& graph, const CompileOptions& options, int64_t most_tried, bool is_relaxed = false)
      : graph_(graph),
        options_(options),
        budget_(options.memory_budget),
        most_tried_(most_tried),
        is_relaxed_(is_relaxed),
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
    if (is_relaxed) OpenInside(opened_);
    is_small_ = opened_.nodes().size() <= kFewOps &&
                AxesThatCut(graph.mesh()).size() <= (is_relaxed ? kMostThorough : 2);
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
    std::vector<FoundLayouts> found;
    const absl::Status status = AddAtPrices(cheapest, found);
    if (budget_ > 0) PlanWithin(found);
    AddAsPinned(found);
    if (found.empty()) return status;
    AddTried(found);
    FindBound(found);
    // What is faster than the bound shows that it is none: Compile does more than the searches know.
    if (LeastSeconds(found) < bound_ * kLess) bound_ = LeastArithmetic();
    for (FoundLayouts& plan : found)
      plan.gap = plan.seconds() > 0 ? std::clamp(1 - bound_ / plan.seconds(), 0.0, 1.0) : 0;
    return found;
  }

 private:
  // Adds plans at rising prices of a held byte until one fits, and then some at prices between. The error is that of
  // the first plan that does not compile.
  absl::Status AddAtPrices(double cheapest, std::vector<FoundLayouts>& found) {
    MESHWORK_ASSIGN_OR_RETURN(FoundLayouts first, At(cheapest));
    const double price =
        std::max(kRaise * cheapest,
                 first.seconds() / static_cast<double>(std::max<int64_t>(1, first.cost.peak_bytes)));
    found.push_back(std::move(first));
    const auto fits = [&](const FoundLayouts& plan) { return Fits(plan, budget_); };
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
    return absl::OkStatus();
  }

  CompileOptions Within() const {
    CompileOptions within = options_;
    within.memory_budget = budget_;
    return within;
  }

  // The time of the fastest plan that fits.
  double LeastSeconds(const std::vector<FoundLayouts>& found) const {
    double least = std::numeric_limits<double>::infinity();
    for (const FoundLayouts& plan : found)
      if (Fits(plan, budget_)) least = std::min(least, plan.seconds());
    return least;
  }

  // Plans are compiled without a memory budget first. Here, those that fit are compiled with it, as their users will
  // do. Then adds those that Compile plans again to fit, if they are then faster than all plans that fit.
  void PlanWithin(std::vector<FoundLayouts>& found) {
    const std::vector<FoundLayouts> without = found;
    for (FoundLayouts& plan : found)
      if (Fits(plan, budget_) && !Measure(Within(), plan).ok()) plan.cost.peak_bytes = budget_ + 1;
    double least = LeastSeconds(found);
    for (const FoundLayouts& plan : without) {
      if (Fits(plan, budget_) || plan.seconds() >= least) continue;
      FoundLayouts fitted = plan;
      if (!Measure(Within(), fitted).ok() || fitted.seconds() >= least) continue;
      least = fitted.seconds();
      found.push_back(std::move(fitted));
    }
  }

  // Adds the layouts that Compile chooses by the pins of the user alone, if the step is then faster than all others.
  void AddAsPinned(std::vector<FoundLayouts>& found) {
    const absl::StatusOr<Program> program = CompileWith(graph_, Within(), {.work = &*work_});
    if (!program.ok()) return;
    FoundLayouts plan{.graph = graph_};
    SetStep(CompiledStepOf(*program, options_.topology), plan);
    if (plan.seconds() >= LeastSeconds(found) * kLess) return;
    FoundLayouts pinned = WithArguments(program->body);
    plan.pins = pinned.pins;
    const bool is_pinnable = program->body.mesh() == graph_.mesh() && Measure(Within(), pinned).ok() &&
                             pinned.seconds() * kLess <= plan.seconds();
    found.push_back(is_pinnable ? std::move(pinned) : std::move(plan));
  }

  // Adds the best layouts of even blocks for the arguments of a small program, if they are better than all others.
  void AddTried(std::vector<FoundLayouts>& found) {
    const auto is_better = [&](const FoundLayouts& a, const FoundLayouts& b) {
      const bool fits = Fits(a, budget_);
      return fits != Fits(b, budget_) ? fits : fits ? a < b : a.cost.peak_bytes < b.cost.peak_bytes;
    };
    const FoundLayouts& best = *std::min_element(found.begin(), found.end(), is_better);
    const CompileOptions within = Within();
    TriedArguments tried = TryArguments(graph_, best.graph, within, most_tried_, *work_);
    if (tried.has_tried_all && tried.graph.has_value() && tried.step.seconds() * kLess <= LeastSeconds(found))
      bound_ = std::max(bound_, tried.step.seconds());
    if (!tried.graph.has_value() || tried.step.seconds() >= LeastSeconds(found) * kLess) return;
    FoundLayouts plan = WithArguments(*tried.graph);
    SetStep(tried.step, plan);
    found.push_back(std::move(plan));
  }

  // The program with its arguments pinned as they lie in `laid_out`, which was made from it, unless the user has pinned
  // them. gathered: per value of `laid_out`, whether it is gathered for each op that reads it; empty: none is.
  FoundLayouts WithArguments(const Graph& laid_out, const std::vector<bool>& gathered = {}) const {
    FoundLayouts plan{.graph = graph_};
    for (size_t i = 0; i < graph_.arguments().size(); ++i) {
      const Argument& argument = graph_.arguments()[i];
      const ValueId there = laid_out.arguments()[i].value;
      ValueInfo& info = plan.graph.mutable_value(argument.value);
      if (IsPinned(info)) continue;
      info.layout = laid_out.value(there).layout;
      info.modes.clear();
      const bool gathers = argument.is_variable && !gathered.empty() && gathered[there];
      if (gathers) info.gather = Gathering::kOnUse;
      plan.pins.push_back({info.name, info.layout->ToString(), gathers});
    }
    return plan;
  }

  static void SetStep(const CompiledStep& step, FoundLayouts& plan) {
    plan.cost = step.cost;
    plan.compute_seconds = step.compute_seconds;
    plan.is_fitted = step.is_fitted;
  }

  absl::Status Measure(const CompileOptions& options, FoundLayouts& plan) {
    MESHWORK_ASSIGN_OR_RETURN(const CompiledStep step, CompileStep(plan.graph, options, &*work_));
    SetStep(step, plan);
    return absl::OkStatus();
  }

  // The plan at a price, in seconds, of a byte that a device holds.
  absl::StatusOr<FoundLayouts> At(double price) {
    std::optional<SolvedLayouts> solved = Solve(price);
    FoundLayouts found = solved.has_value() ? WithArguments(solved->propagated, Gathered(*solved))
                                            : WithArguments(propagated_);
    FoundLayouts of_arguments = found;
    const bool pins_values = solved.has_value() && !is_opened_ && PinValues(*solved, found.graph);
    AllowGathers(found.graph);
    absl::Status status = Measure(options_, found);
    if (pins_values) {
      AllowGathers(of_arguments.graph);
      const bool is_compiled = Measure(options_, of_arguments).ok();
      const bool is_better = !status.ok() || (Fits(of_arguments, budget_) != Fits(found, budget_)
                                                  ? Fits(of_arguments, budget_)
                                                  : of_arguments.seconds() < found.seconds() * kLess);
      if (is_compiled && is_better) {
        found = std::move(of_arguments);
        status = absl::OkStatus();
      }
    }
    MESHWORK_RETURN_IF_ERROR(status);
    if (solved.has_value()) last_ = std::move(solved);
    return found;
  }

  // Raises the bound to the time that no layouts fall below, as far as that is known. What the search looks at is
  // not all that Compile does. So the bound is that of another search, whose programs take no longer than Compile's:
  // without what nobody reads; without pins inside, which Compile leaves out where nobody reads the pinned value;
  // without latencies, which collectives save that run as one; and what is held costs next to nothing.
  // Adds what that search finds, if it is better.
  void FindBound(std::vector<FoundLayouts>& found) {
    const double least = LeastSeconds(found);
    CompileOptions options = options_;
    options.topology = WithoutLatencies(options_.topology, graph_.mesh());
    const Graph graph = DropDeadCode(ShareSubexpressions(FoldSizes(graph_)));
    LayoutFinder relaxed(graph, options, /*most_tried=*/0, /*is_relaxed=*/true);
    bound_ = std::max(bound_, relaxed.LeastArithmetic());
    if (!(bound_ < least * kLess) || !last_.has_value() || !knows_all_ || MayRewrite()) return;
    double held = 0;
    for (const ValueInfo& info : relaxed.opened_.values()) held += 2 * static_cast<double>(info.type.bytes());
    const double price = kHeldPart * least / std::max(1.0, held);
    relaxed.work_.emplace(*work_);
    const std::optional<SolvedLayouts> solved = relaxed.Solve(price);
    work_.emplace(*relaxed.work_);
    if (!solved.has_value()) return;
    bound_ = std::max(bound_, solved->lower_bound - price * held);
    FoundLayouts plan = WithArguments(solved->propagated, relaxed.Gathered(*solved));
    AllowGathers(plan.graph);
    if (Measure(Within(), plan).ok() && plan.seconds() < least * kBetter) found.push_back(std::move(plan));
  }

  // Whether Compile may change the program in ways that the search does not know: cut axes of the mesh where dims are
  // split or merged, run ops along a dim on its blocks, lay out optimizer state, split collectives at domains, or send
  // sums in a narrower dtype.
  bool MayRewrite() const {
    if (options_.shard_weight_update || options_.narrow_sums || options_.num_domains > 1) return true;
    if (options_.cut_mesh && MayCutMesh(opened_)) return true;
    return std::any_of(opened_.nodes().begin(), opened_.nodes().end(), [](const Node& node) {
      const OpRow& row = *node.row;
      return row.blockwise != nullptr &&
             (row.blockwise_at == nullptr || row.blockwise_at(node.attrs).has_value());
    });
  }

  // Opens the layouts of values inside the program.
  static void OpenInside(Graph& graph) {
    std::vector<bool> is_outside(graph.values().size(), false);
    for (const OutputInfo& output : graph.outputs()) is_outside[output.value] = true;
    for (const VariableUpdate& update : graph.updates()) is_outside[update.value] = true;
    for (ValueId id = 0; id < static_cast<ValueId>(is_outside.size()); ++id) {
      ValueInfo& info = graph.mutable_value(id);
      if (info.node < 0 || is_outside[id]) continue;
      info.layout.reset();
      info.modes.clear();
      Node& node = graph.mutable_node(info.node);
      if (node.row->name != "relayout") continue;
      const auto rank = static_cast<size_t>(info.type.rank());
      node.attrs.Set("layout", LayoutPin{Layout(graph.mesh(), std::vector<AxisList>(rank)),
                                         absl::InlinedVector<DimMode, 4>(rank, DimMode::kOpen)});
    }
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
    if (is_relaxed_ && is_small_) {
      std::optional<SolvedLayouts> found = Descend({{AxisSet(axes)}}, price, Start(std::nullopt));
      if (found.has_value() && found->is_cut_off) found->lower_bound = LeastArithmetic();
      return found;
    }
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
    knows_all_ = known.of_all && known.cost * kLess <= best->cost;
    best->lower_bound = std::min(knows_all_ ? known.lower_bound : LeastArithmetic(), best->cost);
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
                   .is_small = is_small_,
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
      if (const Node& node = opened_.nodes()[n]; node.row->name != "relayout" && !IsMark(node))
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

  // Pins the values that would have other layouts by the arguments' pins alone. Returns whether there are any.
  bool PinValues(const SolvedLayouts& solved, Graph& graph) const {
    const Graph guessed = Propagate(FoldSizes(graph)).graph;
    bool pins = false;
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
      pins = true;
    }
    return pins;
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
  const int64_t most_tried_;  // see FindLayoutsOptions
  const bool is_relaxed_;
  bool is_small_ = false;           // see OpenAxes
  std::vector<ValueId> to_opened_;  // per value of the program, without loops: its value in opened_
  Graph opened_, propagated_;
  bool is_opened_ = false;
  std::vector<std::optional<Choice>> choices_;
  Fold fold_;
  CutPool pool_;
  std::optional<SearchWork> work_;
  std::optional<SolvedLayouts> last_;  // at another price
  bool knows_all_ = false;             // the last search has looked at all layouts
  double bound_ = 0;                   // seconds; no layouts take less
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
  if (find.most_tried < 0)
    return InvalidArgument("FindLayouts: most_tried={}; it is a number of ops, 0 or more.", find.most_tried);
  if (find.most < 1) return InvalidArgument("FindLayouts: most={}; ask for at least one plan.", find.most);
  MESHWORK_ASSIGN_OR_RETURN(std::vector<FoundLayouts> all,
                            LayoutFinder(graph, options, find.most_tried).Run());
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
