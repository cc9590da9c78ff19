#include "meshwork/spmd/auto/cheaper_layouts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/fold_repeats.h"
#include "meshwork/spmd/planner/move_seconds.h"
#include "meshwork/spmd/planner/solve_layouts.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/rewrite/gather_on_use.h"
#include "meshwork/spmd/rewrite/optimizer_state.h"
#include "meshwork/spmd/rewrite/simplify.h"
#include "meshwork/spmd/short_program.h"

namespace meshwork {
namespace {

constexpr int64_t kMostTried = 64;
// Values of several layers are alike if everything up to so many ops away is. With fewer ops, the weights of queries
// and keys would be alike.
constexpr int kRoundsAlike = 4;
// The most nodes, all together, of the compiles of a large program. A compile whose change turns out not to cost less
// counts half. At least one compile of a cheaper change, or two of others, are made. For a small program the limit is
// half as many nodes, and at least as many compiles as changes are asked for.
constexpr int64_t kMostCompiledNodes = 8192;
// In a program of at most so many ops, all changes are compiled, whatever the planner says: it does not know which
// collectives become one. In a larger program, only changes that by the planner save at least the part kWorthTrying of
// the step.
constexpr int64_t kFewNodes = 512;
constexpr double kWorthTrying = 0.005;
// On meshes of more axes there are so many layouts that costing all relayouts would take longer than compiles.
constexpr size_t kMostAxes = 2;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastLatency = 1e-12;  // seconds: a collective counts less than a byte

// The work of a device: per op, the operations or the elements that it reads, whichever are more.
double WorkOf(const Graph& local) {
  double work = 0;
  for (const Node& node : local.nodes()) {
    if (node.row->kind != OpKind::kCompute) continue;
    double read = 0;
    for (ValueId id : node.operands) read += static_cast<double>(local.value(id).type.num_elements());
    work += std::max(FlopsOf(local, node), read);
  }
  return work;
}

// A device may do this much more work: uneven cuts count their padding.
constexpr double kSameWork = 1.02;

// A compile ends early if, by its short program, the whole program sends more than now by this factor.
constexpr double kFarMore = 1.05;

struct Candidate {
  // The values that change together: those that are alike, and the state of weights. They are of the program looked at.
  std::vector<ValueId> values;
  Layout layout;
  int64_t others = 0;  // values of the whole program that change with the first one, not counting state
};

// Every layout that differs in one step.
std::vector<Layout> Neighbours(const Layout& layout) {
  std::vector<Layout> all;
  const Mesh& mesh = layout.mesh();
  for (int d = 0; d < layout.rank(); ++d) {
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (mesh.axis(axis).size == 1 || layout.ShardedAxes().Contains(axis)) continue;
      AxisList more = layout.dim(d);
      more.push_back(axis);
      all.push_back(layout.WithDim(d, more));
    }
    if (layout.dim(d).empty()) continue;
    AxisList rest = layout.dim(d);
    const int minor = rest.back();
    if (mesh.axis(minor).size == 1) continue;
    rest.pop_back();
    const Layout dropped = layout.WithDim(d, rest);
    all.push_back(dropped);
    for (int e = 0; e < layout.rank(); ++e) {
      if (e == d) continue;
      AxisList moved = layout.dim(e);
      moved.push_back(minor);
      all.push_back(dropped.WithDim(e, moved));
    }
  }
  return all;
}

struct TrialResult {
  StepCost cost;
  double work;
  std::vector<ExplainedCollective> collectives = {};
};

bool IsCheaper(const TrialResult& a, const TrialResult& b) {
  return a.cost < b.cost && a.work <= b.work * kSameWork;
}

// Tries the step with one layout changed; if layers repeat, changed in all layers.
class Trials {
 public:
  Trials(const Graph& global, const CompileOptions& options) : global_(global), options_(options) {
    options_.verify = false;
    options_.dump = nullptr;
    // A memory budget holds for the whole program.
    if (options.memory_budget == 0) short_ = ShortProgramOf(global, options.replication_budget);
    const auto num_looked_at = static_cast<int64_t>(LookedAt().values().size());
    first_.assign(num_looked_at, kNoValue);
    times_.assign(num_looked_at, 0);
    for (ValueId id = 0; id < static_cast<ValueId>(global.values().size()); ++id)
      if (times_[LookedAt(id)]++ == 0) first_[LookedAt(id)] = id;
  }

  // The program that is looked at: one of few layers, if layers repeat.
  const Graph& LookedAt() const { return short_.has_value() ? short_->graph : global_; }
  // The first value of the whole program that a candidate changes.
  const ValueInfo& InfoOf(const Candidate& candidate) const {
    return global_.value(first_[candidate.values[0]]);
  }

  // All candidates, those of the largest values first.
  std::vector<Candidate> Candidates() const {
    const Graph& graph = LookedAt();
    const auto size = static_cast<ValueId>(graph.values().size());
    const std::vector<ValueId> alike = Alike();
    std::vector<std::vector<ValueId>> together(size);  // by the first of those that are alike
    std::vector<int64_t> count(size, 0);
    for (ValueId id = 0; id < size; ++id) {
      together[alike[id]].push_back(id);
      count[alike[id]] += times_[id];
    }
    std::vector<bool> is_of_weight(size, false);
    for (const WeightState& found : FindWeightStates(graph)) {
      const ValueId weight = graph.arguments()[found.weight].value;
      for (int argument : found.state) {
        const ValueId state = graph.arguments()[argument].value;
        const ValueInfo &a = graph.value(weight), &b = graph.value(state);
        if (a.type.shape != b.type.shape || a.layout != b.layout) continue;
        together[alike[weight]].push_back(state);
        is_of_weight[state] = true;
      }
    }
    std::vector<Candidate> all;
    for (ValueId id = 0; id < size; ++id) {
      const ValueInfo& info = graph.value(id);
      if (together[id].empty() || is_of_weight[id] || !info.layout.has_value() || info.layout->is_strided() ||
          !info.modes.empty())
        continue;
      for (Layout& layout : Neighbours(*info.layout))
        all.push_back({together[id], std::move(layout), count[id] - 1});
    }
    const auto bytes = [&](const Candidate& candidate) {
      return SaturatedProduct(InfoOf(candidate).type.bytes(), candidate.others + 1);
    };
    std::stable_sort(all.begin(), all.end(),
                     [&](const Candidate& a, const Candidate& b) { return bytes(a) > bytes(b); });
    return all;
  }

  // The program with a candidate (null: with none), to compare with other candidates; its cost is not that of the whole
  // program. A program of few layers is compiled without the search for layouts, which takes most of the time.
  absl::StatusOr<Program> Rank(const Candidate* candidate) const {
    // Budgets are only checked for the cheapest layouts: a refusal takes compiles of its own to find a way around it.
    CompileOptions quick = options_;
    quick.memory_budget = 0;
    quick.replication_budget = std::numeric_limits<int64_t>::max();
    Graph changed = LookedAt();
    if (candidate != nullptr)
      for (ValueId id : candidate->values) changed.mutable_value(id).layout = candidate->layout;
    if (!short_.has_value()) return Compile(changed, quick);
    return CompileWith(changed, quick, {.left_out = {"choose_layouts"}});
  }

  // The costs of the whole step, compiled with the candidate. Nothing if budgets do not allow the candidate, or if the
  // step then sends far more than `now`.
  std::optional<TrialResult> CostsOf(const Candidate& candidate, const StepCost& now) const {
    std::vector<bool> changes(times_.size(), false);
    for (ValueId id : candidate.values) changes[id] = true;
    Graph changed = global_;
    for (ValueId id = 0; id < static_cast<ValueId>(changed.values().size()); ++id)
      if (changes[LookedAt(id)]) changed.mutable_value(id).layout = candidate.layout;
    PassControl control;
    if (options_.topology.is_assumed())
      control.most_wire_bytes = static_cast<int64_t>(kFarMore * static_cast<double>(now.bytes));
    const absl::StatusOr<Program> program = CompileWith(changed, options_, control);
    if (!program.ok()) return std::nullopt;
    Explanation then = Explain(*program, options_.topology);
    return TrialResult{then.cost, WorkOf(program->body), std::move(then.collectives)};
  }

  // Per candidate: by the planner, how many seconds longer the step takes (CostsOfChanges,
  // spmd/planner/solve_layouts.h). Nothing if the program has loops or is too large for it, or the mesh has many axes.
  // counts_collectives: with the assumed topology, bytes count first, and then collectives.
  std::optional<std::vector<double>> MoreSeconds(const std::vector<Candidate>& candidates,
                                                 bool counts_collectives) const {
    const Graph& looked_at = LookedAt();
    if (HasLoops(looked_at) || AxesThatCut(looked_at.mesh()).size() > kMostAxes) return std::nullopt;
    std::vector<ValueId> to_folded, to_marked;
    const Graph graph = MarkUses(FoldSizes(looked_at, &to_folded), &to_marked);
    const Graph propagated = Propagate(graph).graph;
    std::vector<PinChange> changes;
    for (const Candidate& candidate : candidates) {
      std::set<ValueId> values;
      for (ValueId id : candidate.values) values.insert(to_marked[to_folded[id]]);
      changes.push_back({{values.begin(), values.end()}, candidate.layout.WithoutTrivialAxes()});
    }
    const Topology& topology = options_.topology;
    std::optional<std::vector<double>> more =
        CostsOfChanges(graph, propagated, ChooseCuts(propagated, topology, Replication()), topology,
                       topology.is_assumed() && counts_collectives ? kLeastLatency : 0, changes);
    for (size_t i = 0; more.has_value() && i < candidates.size(); ++i) (*more)[i] *= TimesOf(candidates[i]);
    return more;
  }

  // How many values of the whole program each value of the candidate stands for, on average.
  double TimesOf(const Candidate& candidate) const {
    int64_t times = 0;
    for (ValueId id : candidate.values) times += times_[id];
    return static_cast<double>(times) / static_cast<double>(candidate.values.size());
  }

 private:
  // Per value that is looked at: the first value that changes with it, because both are alike in the whole program.
  std::vector<ValueId> Alike() const {
    std::vector<ValueId> first(times_.size());
    std::iota(first.begin(), first.end(), 0);
    if (!short_.has_value()) return first;
    const auto find = [&](ValueId id) {
      while (first[id] != id) id = first[id] = first[first[id]];
      return id;
    };
    const std::vector<ValueId> alike = FoldAlike(global_, kRoundsAlike, {}, {}).value_of;
    for (ValueId id = 0; id < static_cast<ValueId>(alike.size()); ++id) {
      const ValueId a = find(LookedAt(id)), b = find(LookedAt(alike[id]));
      first[std::max(a, b)] = std::min(a, b);
    }
    for (ValueId& id : first) id = find(id);
    return first;
  }

  // The value that is looked at instead of a value of the whole program.
  ValueId LookedAt(ValueId id) const { return short_.has_value() ? short_->value_of[id] : id; }

  const Graph& global_;
  CompileOptions options_;
  std::optional<ShortProgram> short_;
  // Per value that is looked at: the first of the whole program that it stands for, and how many there are.
  std::vector<ValueId> first_;
  std::vector<int64_t> times_;
};

std::string NameOf(const Graph& global, const ValueInfo& info) {
  if (!info.name.empty()) return "%" + info.name;
  return fmt::format("{} {}", info.node < 0 ? "input" : global.nodes()[info.node].row->name,
                     info.type.ToString());
}

// Per candidate: by quick compiles, how many seconds longer the step takes; infinite if it is not cheaper.
std::vector<double> MoreByCompiling(const Trials& trials, std::span<const Candidate> candidates,
                                    const Topology& topology) {
  const auto rank = [&](const Candidate* candidate) -> std::optional<TrialResult> {
    const absl::StatusOr<Program> program = trials.Rank(candidate);
    if (!program.ok()) return std::nullopt;
    return TrialResult{CostOf(program->body, topology), WorkOf(program->body)};
  };
  const auto seconds = [&](const StepCost& cost) {
    return LinkSeconds(cost, topology) + kLeastLatency * static_cast<double>(cost.collectives);
  };
  const std::optional<TrialResult> now = rank(nullptr);
  MESHWORK_CHECK(now.has_value(), "a program which has compiled");
  std::vector<double> more;
  for (const Candidate& candidate : candidates) {
    const std::optional<TrialResult> other = rank(&candidate);
    more.push_back(other.has_value() && IsCheaper(*other, *now)
                       ? trials.TimesOf(candidate) * (seconds(other->cost) - seconds(now->cost))
                       : kInfinity);
  }
  return more;
}

// The candidates that save at least `least_saved`, the best first. more: seconds, per candidate. in_turns: the best
// change of each kind (from one layout to another) first, then the second best of each kind, and so on, because the
// planner only sees what is near a value.
std::vector<const Candidate*> Ranked(const Trials& trials, std::span<const Candidate> candidates,
                                     const std::vector<double>& more, double least_saved, bool in_turns) {
  std::vector<size_t> order;
  for (size_t i = 0; i < more.size(); ++i)
    if (more[i] <= -least_saved) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return more[a] < more[b]; });
  std::map<std::string, int> of_kind;
  std::multimap<int, const Candidate*> by_turn;
  for (size_t i : order) {
    const Layout &from = *trials.InfoOf(candidates[i]).layout, &to = candidates[i].layout;
    by_turn.emplace(in_turns ? of_kind[from.ToString() + to.ToString()]++ : 0, &candidates[i]);
  }
  std::vector<const Candidate*> best;
  for (const auto& [turn, candidate] : by_turn) best.push_back(candidate);
  return best;
}

}  // namespace

LayoutSearch CheaperLayouts(const Graph& global, const Program& program, const CompileOptions& options,
                            const CheaperLayoutsOptions& cheaper) {
  const TrialResult now{CostOf(program.body, options.topology), WorkOf(program.body)};
  const Trials trials(global, options);
  const std::vector<Candidate> candidates = trials.Candidates();
  LayoutSearch search{.layouts = std::ssize(candidates), .tried = std::ssize(candidates)};
  // A step that sends nothing cannot become cheaper.
  if (now.cost.collectives == 0) return search;
  const int64_t nodes = std::max<int64_t>(1, std::ssize(global.nodes()));
  const bool has_few_nodes = nodes <= kFewNodes;
  bool tries_all = false;
  std::vector<const Candidate*> ranked;
  if (const auto more = trials.MoreSeconds(candidates, /*counts_collectives=*/has_few_nodes)) {
    tries_all = has_few_nodes;
    search.tried =
        std::count_if(more->begin(), more->end(), [](double seconds) { return std::isfinite(seconds); });
    ranked = Ranked(trials, candidates, *more,
                    tries_all ? -kInfinity : kWorthTrying * LinkSeconds(now.cost, options.topology),
                    /*in_turns=*/true);
  } else {
    const int64_t nodes_tried = std::max<int64_t>(1, std::ssize(trials.LookedAt().nodes()));
    search.tried =
        std::min({search.layouts, kMostTried, std::max<int64_t>(1, cheaper.most_nodes / nodes_tried)});
    const auto first = std::span(candidates).first(search.tried);
    ranked = Ranked(trials, first, MoreByCompiling(trials, first, options.topology), 0, /*in_turns=*/false);
  }

  std::vector<std::pair<const Candidate*, TrialResult>> found;
  std::set<ValueId> seen;
  int64_t left = tries_all ? std::max(int64_t{cheaper.most}, kMostCompiledNodes / 2 / nodes)
                           : std::max(int64_t{2}, 2 * kMostCompiledNodes / nodes);
  for (const Candidate* candidate : ranked) {
    if (left <= 0 || (!tries_all && std::ssize(seen) == cheaper.most)) break;
    if (!tries_all && seen.contains(candidate->values[0])) continue;
    --left;
    std::optional<TrialResult> then = trials.CostsOf(*candidate, now.cost);
    if (!then.has_value() || !IsCheaper(*then, now)) continue;
    if (!tries_all) --left;
    seen.insert(candidate->values[0]);
    found.emplace_back(candidate, *std::move(then));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.second.cost < b.second.cost; });
  for (auto& [candidate, then] : found) {
    if (std::ssize(search.changes) == cheaper.most) break;
    if (seen.erase(candidate->values[0]) == 0) continue;  // one layout per value
    const ValueInfo& info = trials.InfoOf(*candidate);
    search.changes.push_back({.value = NameOf(global, info),
                              .others = candidate->others,
                              .from = info.layout->ToString(),
                              .to = candidate->layout.ToString(),
                              .location = info.location.ToString(),
                              .cost = then.cost,
                              .collectives = std::move(then.collectives)});
  }
  return search;
}

}  // namespace meshwork
