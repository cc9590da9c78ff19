#include "meshwork/spmd/cheaper_layouts.h"

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
#include <tuple>
#include <unordered_map>
#include <utility>

#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/control/loops.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/choose_cuts.h"
#include "meshwork/spmd/cut.h"
#include "meshwork/spmd/fold_repeats.h"
#include "meshwork/spmd/gather_on_use.h"
#include "meshwork/spmd/move_seconds.h"
#include "meshwork/spmd/optimizer_state.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/short_program.h"
#include "meshwork/spmd/simplify.h"
#include "meshwork/spmd/solve_layouts.h"

namespace meshwork {
namespace {

constexpr int64_t kMostTried = 64;
// Values of several layers are alike if all that lies up to so many ops away is. Fewer would not tell the weights of
// queries and keys apart.
constexpr int kRoundsAlike = 4;
// Programs that turn out not to be cheaper: so many ops they have together, at most; but as many programs as layouts are
// asked for may be compiled in vain.
constexpr int64_t kMostCompiledNodes = 4096;
// In a program of so few ops, changes are compiled whatever the planner says, as far as that number allows: it counts no halos,
// and does not know which collectives become one. In a larger one, changes by which it says that this part of the step is
// saved.
constexpr int64_t kFewNodes = 512;
constexpr double kWorthTrying = 0.005;
// On meshes of more axes there are so many layouts that to know what each relayout takes would take longer than compiles.
constexpr size_t kMostAxes = 2;
constexpr double kLeastLatency = 1e-12;  // seconds: a collective counts less than a byte

// What a device reads and computes.
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

// A device may do this much more: what is cut unevenly counts its padding.
constexpr double kSameWork = 1.02;

struct Candidate {
  ValueId value;
  Layout layout;
  std::vector<ValueId> alike = {};  // values that change with it: of other layers, and state of all of them
  int64_t others = 0;               // of other layers
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

// The state of weights, whose layout is the weight's and changes with it.
class States {
 public:
  explicit States(const Graph& graph) : is_of_weight_(graph.values().size(), false) {
    for (const WeightState& found : FindWeightStates(graph)) {
      const ValueId weight = graph.arguments()[found.weight].value;
      for (int argument : found.state) {
        const ValueId state = graph.arguments()[argument].value;
        const ValueInfo &a = graph.value(weight), &b = graph.value(state);
        if (a.type.shape != b.type.shape || a.layout != b.layout) continue;
        of_[weight].push_back(state);
        is_of_weight_[state] = true;
      }
    }
  }

  std::vector<ValueId> Of(ValueId value) const {
    const auto it = of_.find(value);
    return it == of_.end() ? std::vector<ValueId>() : it->second;
  }
  // Whether the value changes together with a weight.
  bool IsOfWeight(ValueId value) const { return is_of_weight_[value]; }

 private:
  std::unordered_map<ValueId, std::vector<ValueId>> of_;
  std::vector<bool> is_of_weight_;  // per value
};

struct TrialResult {
  StepCost cost;
  double work;
  std::vector<ExplainedCollective> collectives = {};
};

std::tuple<double, int64_t, int64_t> WeightOf(const TrialResult& result) {
  return {result.cost.seconds, result.cost.bytes, result.cost.collectives};
}

bool IsCheaper(const TrialResult& a, const TrialResult& b) {
  return WeightOf(a) < WeightOf(b) && a.work <= b.work * kSameWork;
}

// The step with one layout changed; where layers repeat, in all of them.
class Trials {
 public:
  Trials(const Graph& global, const CompileOptions& options)
      : global_(global), options_(options), states_(global) {
    options_.verify = false;
    options_.dump = nullptr;
    // Memory counts in the whole.
    if (options.memory_budget == 0) short_ = ShortProgramOf(global, options.replication_budget);
  }

  // Of the program that Rank compiles.
  int64_t nodes() const { return static_cast<int64_t>(LookedAt().nodes().size()); }

  // Those of the largest values first.
  std::vector<Candidate> Candidates() const {
    std::vector<Candidate> all;
    const std::vector<std::vector<ValueId>> alike = Alike();
    for (ValueId id = 0; id < static_cast<ValueId>(alike.size()); ++id) {
      const ValueInfo& info = global_.value(id);
      if (alike[id].empty() || !info.layout.has_value() || info.layout->is_strided() || !info.modes.empty() ||
          states_.IsOfWeight(id))
        continue;
      Candidate candidate{.value = id, .layout = *info.layout};
      candidate.others = std::ssize(alike[id]) - 1;
      for (ValueId other : alike[id]) {
        candidate.alike.push_back(other);
        for (ValueId state : states_.Of(other)) candidate.alike.push_back(state);
      }
      for (Layout& layout : Neighbours(*info.layout)) {
        candidate.layout = std::move(layout);
        all.push_back(candidate);
      }
    }
    const auto bytes = [&](const Candidate& candidate) {
      return SaturatedProduct(global_.value(candidate.value).type.bytes(), candidate.others + 1);
    };
    std::stable_sort(all.begin(), all.end(),
                     [&](const Candidate& a, const Candidate& b) { return bytes(a) > bytes(b); });
    return all;
  }

  // What a candidate, null for none, makes of the step: to compare with others, not what the whole costs. Of few layers
  // without the search for layouts, which takes most of the time.
  absl::StatusOr<Program> Rank(const Candidate* candidate) const {
    // Whether budgets allow a layout is asked of the cheapest: a refusal takes compiles of its own to find a way out.
    CompileOptions quick = options_;
    quick.memory_budget = 0;
    quick.replication_budget = std::numeric_limits<int64_t>::max();
    if (!short_.has_value()) return Compile(With(global_, nullptr, candidate), quick);
    return CompileWith(With(short_->graph, &short_->value_of, candidate), quick,
                       {.left_out = {"choose_layouts"}});
  }

  // Of the whole step, compiled with the candidate; nothing if budgets do not allow that.
  std::optional<TrialResult> CostsOf(const Candidate& candidate) const {
    const absl::StatusOr<Program> program = Compile(With(global_, nullptr, &candidate), options_);
    if (!program.ok()) return std::nullopt;
    Explanation then = Explain(*program, options_.topology);
    return TrialResult{then.cost, WorkOf(program->body), std::move(then.collectives)};
  }

  // Per candidate, how much more the planner says that the step takes (solve_layouts.h), looking at few layers where they repeat.
  // Nothing where it does not know the program.
  std::optional<std::vector<double>> MoreSeconds(const std::vector<Candidate>& candidates) const {
    const Graph& looked_at = LookedAt();
    if (HasLoops(looked_at) || AxesThatCut(looked_at.mesh()).size() > kMostAxes) return std::nullopt;
    std::vector<ValueId> to_folded, to_marked;
    const Graph graph = MarkUses(FoldSizes(looked_at, &to_folded), &to_marked);
    if (!MaySolveLayouts(graph, {})) return std::nullopt;
    const Graph propagated = Propagate(graph).graph;
    std::vector<PinChange> changes;
    for (const Candidate& candidate : candidates) {
      std::set<ValueId> few;
      for (ValueId id : LookedAt(candidate)) few.insert(to_marked[to_folded[id]]);
      changes.push_back({{few.begin(), few.end()}, candidate.layout.WithoutTrivialAxes()});
    }
    const Topology& topology = options_.topology;
    // Where times are not known, bytes count first, and then collectives.
    std::optional<std::vector<double>> more =
        CostsOfChanges(graph, propagated, ChooseCuts(propagated, topology, Replication()), topology,
                       topology.is_assumed() ? kLeastLatency : 0, changes);
    for (size_t i = 0; more.has_value() && i < candidates.size(); ++i) (*more)[i] *= TimesOf(candidates[i]);
    return more;
  }

  // How many values of the whole program each one stands for, on average, that the candidate changes in the program that
  // Rank compiles.
  double TimesOf(const Candidate& candidate) const {
    return static_cast<double>(candidate.alike.size()) / static_cast<double>(LookedAt(candidate).size());
  }

 private:
  const Graph& LookedAt() const { return short_.has_value() ? short_->graph : global_; }
  // The values of that program that a candidate changes.
  std::set<ValueId> LookedAt(const Candidate& candidate) const {
    std::set<ValueId> few;
    for (ValueId id : candidate.alike) few.insert(short_.has_value() ? short_->value_of[id] : id);
    return few;
  }

  // Per value that is the first of those that change together: these.
  std::vector<std::vector<ValueId>> Alike() const {
    const auto size = static_cast<ValueId>(global_.values().size());
    std::vector<ValueId> first(static_cast<size_t>(size));
    std::iota(first.begin(), first.end(), 0);
    const auto find = [&](ValueId id) {
      while (first[id] != id) id = first[id] = first[first[id]];
      return id;
    };
    const auto join = [&](const std::vector<ValueId>& kinds, size_t num_kinds) {
      std::vector<ValueId> of_kind(num_kinds, kNoValue);
      for (ValueId id = 0; id < size; ++id) {
        ValueId& other = of_kind[kinds[id]];
        if (other == kNoValue) other = id;
        const ValueId a = find(id), b = find(other);
        first[std::max(a, b)] = std::min(a, b);
      }
    };
    if (short_.has_value()) {
      join(FoldAlike(global_, kRoundsAlike, {}, {}).value_of, first.size());
      // Those that one value of the short program stands for are not told apart there.
      join(short_->value_of, short_->graph.values().size());
    }
    std::vector<std::vector<ValueId>> alike(first.size());
    for (ValueId id = 0; id < size; ++id) alike[find(id)].push_back(id);
    return alike;
  }

  // `value_of`: of the whole program's values, those of `graph`; null: themselves.
  static Graph With(const Graph& graph, const std::vector<ValueId>* value_of, const Candidate* candidate) {
    Graph changed = graph;
    if (candidate == nullptr) return changed;
    for (ValueId id : candidate->alike)
      changed.mutable_value(value_of == nullptr ? id : (*value_of)[id]).layout = candidate->layout;
    return changed;
  }

  const Graph& global_;
  CompileOptions options_;
  const States states_;
  std::optional<ShortProgram> short_;  // that is looked at where layers repeat
};

std::string NameOf(const Graph& global, const ValueInfo& info) {
  if (!info.name.empty()) return "%" + info.name;
  return fmt::format("{} {}", info.node < 0 ? "input" : global.nodes()[info.node].row->name,
                     info.type.ToString());
}

// Those that make the step cheaper, the best first, by what quick compiles say: of few layers, by what all of them save.
std::vector<const Candidate*> RankedByCompiling(const Trials& trials, std::span<const Candidate> candidates,
                                                const Topology& topology) {
  struct Ranked {
    const Candidate* candidate;
    double seconds, bytes;  // more than now, in the whole
    int64_t collectives;
  };
  const auto rank = [&](const Candidate* candidate) -> std::optional<TrialResult> {
    const absl::StatusOr<Program> program = trials.Rank(candidate);
    if (!program.ok()) return std::nullopt;
    return TrialResult{CostOf(program->body, topology), WorkOf(program->body)};
  };
  const std::optional<TrialResult> now = rank(nullptr);
  MESHWORK_CHECK(now.has_value(), "a program which has compiled");
  std::vector<Ranked> ranked;
  for (const Candidate& candidate : candidates) {
    const std::optional<TrialResult> other = rank(&candidate);
    if (!other.has_value() || !IsCheaper(*other, *now)) continue;
    const double times = trials.TimesOf(candidate);
    ranked.push_back({&candidate, times * (other->cost.seconds - now->cost.seconds),
                      times * static_cast<double>(other->cost.bytes - now->cost.bytes),
                      other->cost.collectives - now->cost.collectives});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::tie(a.seconds, a.bytes, a.collectives) < std::tie(b.seconds, b.bytes, b.collectives);
  });
  std::vector<const Candidate*> best;
  for (const Ranked& one : ranked) best.push_back(one.candidate);
  return best;
}

// Those that save something by what the planner says; in a program of few ops, all. Of changes of each kind, from one layout
// to another, the best first, and each kind in its turn: the planner sees what is near a value alone.
// more: seconds, per candidate; seconds: of the step now.
std::vector<const Candidate*> RankedByPlanner(const Graph& global, std::span<const Candidate> candidates,
                                              const std::vector<double>& more, double seconds,
                                              bool has_few_nodes) {
  std::vector<size_t> order;
  for (size_t i = 0; i < more.size(); ++i)
    if (has_few_nodes || more[i] <= -kWorthTrying * seconds) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return more[a] < more[b]; });
  std::map<std::string, int> of_kind;
  std::vector<std::pair<int, const Candidate*>> turns;
  for (size_t i : order) {
    const Candidate& candidate = candidates[i];
    const std::string from = global.value(candidate.value).layout->ToString();
    turns.emplace_back(of_kind[from + candidate.layout.ToString()]++, &candidate);
  }
  std::stable_sort(turns.begin(), turns.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Candidate*> best;
  for (const auto& [turn, candidate] : turns) best.push_back(candidate);
  return best;
}

}  // namespace

LayoutSearch CheaperLayouts(const Graph& global, const Program& program, const CompileOptions& options,
                            const CheaperOptions& cheaper) {
  const TrialResult now{CostOf(program.body, options.topology), WorkOf(program.body)};
  Trials trials(global, options);
  const std::vector<Candidate> candidates = trials.Candidates();
  LayoutSearch search{.layouts = std::ssize(candidates), .tried = std::ssize(candidates)};
  // What sends nothing costs least.
  if (now.cost.collectives == 0) return search;
  const int64_t nodes = std::max<int64_t>(1, std::ssize(global.nodes()));
  std::vector<const Candidate*> ranked;
  bool tries_all = false;
  if (const std::optional<std::vector<double>> more = trials.MoreSeconds(candidates)) {
    tries_all = nodes <= kFewNodes;
    search.tried =
        std::count_if(more->begin(), more->end(), [](double seconds) { return std::isfinite(seconds); });
    ranked = RankedByPlanner(global, candidates, *more, LinkSeconds(now.cost, options.topology), tries_all);
  } else {
    search.tried =
        std::min({search.layouts, kMostTried,
                  std::max<int64_t>(1, cheaper.most_nodes / std::max<int64_t>(1, trials.nodes()))});
    ranked = RankedByCompiling(trials, std::span(candidates).first(search.tried), options.topology);
  }

  std::vector<std::pair<const Candidate*, TrialResult>> found;
  std::set<ValueId> seen;
  int64_t left = std::max(int64_t{cheaper.most}, kMostCompiledNodes / nodes);
  for (const Candidate* candidate : ranked) {
    if (left <= 0 || (!tries_all && std::ssize(seen) == cheaper.most)) break;
    if (!tries_all && seen.contains(candidate->value)) continue;
    std::optional<TrialResult> then = trials.CostsOf(*candidate);
    const bool is_cheaper = then.has_value() && IsCheaper(*then, now);
    if (!is_cheaper || tries_all) --left;
    if (!is_cheaper) continue;
    seen.insert(candidate->value);
    found.emplace_back(candidate, *std::move(then));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return WeightOf(a.second) < WeightOf(b.second); });
  for (auto& [candidate, then] : found) {
    if (std::ssize(search.changes) == cheaper.most) break;
    if (seen.erase(candidate->value) == 0) continue;  // one layout per value
    const ValueInfo& info = global.value(candidate->value);
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
