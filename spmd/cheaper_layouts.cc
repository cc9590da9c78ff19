#include "meshwork/spmd/cheaper_layouts.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "meshwork/ir/row.h"
#include "meshwork/spmd/fold_repeats.h"
#include "meshwork/spmd/optimizer_state.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/replication.h"
#include "meshwork/spmd/short_program.h"
#include "meshwork/spmd/solve_layouts.h"

namespace meshwork {
namespace {

constexpr int64_t kMostTried = 64;

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

// The step with one layout changed: the whole program, or where layers repeat two of few layers, of which the second has
// a layer more.
class Trials {
 public:
  Trials(const Graph& global, const CompileOptions& options)
      : global_(global), options_(options), states_(global) {
    options_.verify = false;
    options_.dump = nullptr;
    const Replication replication(global, options.replication_budget);
    for (int kept : {2, 3}) {
      std::optional<ShortProgram> made = Shortened(global, RepeatsOf(global, global, {}, replication, kept));
      if (made.has_value()) short_.push_back(*std::move(made));
    }
    const size_t left_out = short_.empty() ? 0 : global.nodes().size() - short_[0].graph.nodes().size();
    const size_t layer =
        short_.size() < 2 ? 0 : short_[1].graph.nodes().size() - short_[0].graph.nodes().size();
    if (layer == 0 || left_out % layer != 0) short_.clear();
    else layers_ = static_cast<int64_t>(left_out / layer);
  }

  bool repeats() const { return !short_.empty(); }
  // Of the program that Rank compiles.
  int64_t nodes() const {
    return static_cast<int64_t>((repeats() ? short_[0].graph : global_).nodes().size());
  }

  // Those of the largest values first.
  std::vector<Candidate> Candidates() const {
    std::vector<Candidate> all;
    const Fold fold = repeats() ? FoldAlike(global_, 1, {}, {}) : Unfolded(global_);
    std::vector<std::vector<ValueId>> alike(global_.values().size());
    for (ValueId id = 0; id < static_cast<ValueId>(alike.size()); ++id)
      alike[fold.value_of[id]].push_back(id);
    for (ValueId id = 0; id < static_cast<ValueId>(alike.size()); ++id) {
      const ValueInfo& info = global_.value(id);
      if (fold.value_of[id] != id || !info.layout.has_value() || info.layout->is_strided() ||
          !info.modes.empty() || states_.IsOfWeight(id))
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
    std::stable_sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
      return global_.value(a.value).type.bytes() > global_.value(b.value).type.bytes();
    });
    return all;
  }

  // What a candidate, null for none, makes of the step: to compare with others, not what the whole costs. Of few layers
  // without the search for layouts, which takes most of the time.
  absl::StatusOr<Program> Rank(const Candidate* candidate) const {
    // Whether budgets allow a layout is asked of the cheapest: a refusal takes compiles of its own to find a way out.
    CompileOptions quick = options_;
    quick.memory_budget = 0;
    quick.replication_budget = std::numeric_limits<int64_t>::max();
    if (!repeats()) return Compile(With(global_, nullptr, candidate), quick);
    return CompileWith(With(short_[0].graph, &short_[0].value_of, candidate), quick,
                       {.left_out = {"choose_layouts"}});
  }

  struct Result {
    StepCost cost;
    double work;
    std::vector<ExplainedCollective> collectives = {};
  };
  // Of the whole step; nothing if budgets do not allow the candidate. in_full: not by few layers.
  std::optional<Result> Costs(const Candidate& candidate, bool in_full) const {
    if (!repeats() || in_full) {
      const absl::StatusOr<Program> program = Compile(With(global_, nullptr, &candidate), options_);
      if (!program.ok()) return std::nullopt;
      Explanation then = Explain(*program, options_.topology);
      return Result{then.cost, WorkOf(program->body), std::move(then.collectives)};
    }
    CompileOptions options = options_;
    options.memory_budget = 0;
    std::vector<Result> results;
    for (const ShortProgram& few : short_) {
      const absl::StatusOr<Program> program = Compile(With(few.graph, &few.value_of, &candidate), options);
      if (!program.ok()) return std::nullopt;
      results.push_back({CostOf(program->body, options_.topology), WorkOf(program->body)});
    }
    Result whole = Extended(results[0], results[1]);
    if (options_.memory_budget > 0 && whole.cost.peak_bytes > options_.memory_budget) return std::nullopt;
    return whole;
  }

 private:
  // What the whole costs, where `fewer` and `more` are one layer apart.
  Result Extended(const Result& fewer, const Result& more) const {
    const auto extended = [&](auto a, auto b) { return a + static_cast<decltype(a)>(layers_) * (b - a); };
    const StepCost &a = fewer.cost, &b = more.cost;
    return {{.collectives = extended(a.collectives, b.collectives),
             .bytes = extended(a.bytes, b.bytes),
             .received = extended(a.received, b.received),
             .seconds = extended(a.seconds, b.seconds),
             .peak_bytes = extended(a.peak_bytes, b.peak_bytes)},
            extended(fewer.work, more.work)};
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
  std::vector<ShortProgram> short_;  // two, or none
  int64_t layers_ = 0;               // that the first lacks
};

std::string NameOf(const Graph& global, const ValueInfo& info) {
  if (!info.name.empty()) return "%" + info.name;
  return fmt::format("{} {}", info.node < 0 ? "input" : global.nodes()[info.node].row->name,
                     info.type.ToString());
}

}  // namespace

LayoutSearch CheaperLayouts(const Graph& global, const Program& program, const CompileOptions& options,
                            const CheaperOptions& cheaper) {
  const auto weight = [](const StepCost& cost) {
    return std::tuple(cost.seconds, cost.bytes, cost.collectives);
  };
  const Trials trials(global, options);
  std::vector<Candidate> candidates = trials.Candidates();
  LayoutSearch search{.layouts = std::ssize(candidates),
                      .by_few_layers = trials.repeats() && !cheaper.in_full};
  search.tried = std::min({search.layouts, kMostTried,
                           std::max<int64_t>(1, cheaper.most_nodes / std::max<int64_t>(1, trials.nodes()))});
  candidates.erase(candidates.begin() + search.tried, candidates.end());

  // The best by what a quick compile says.
  StepCost ranked_now = CostOf(program.body, options.topology);
  double ranked_work = WorkOf(program.body);
  const StepCost now = ranked_now;
  const double work = ranked_work;
  if (trials.repeats()) {
    const absl::StatusOr<Program> quick = trials.Rank(nullptr);
    if (!quick.ok()) return search;
    ranked_now = CostOf(quick->body, options.topology);
    ranked_work = WorkOf(quick->body);
  }
  std::vector<std::pair<StepCost, const Candidate*>> ranked;
  for (const Candidate& candidate : candidates) {
    const absl::StatusOr<Program> other = trials.Rank(&candidate);
    if (!other.ok() || WorkOf(other->body) > ranked_work * kSameWork) continue;
    const StepCost cost = CostOf(other->body, options.topology);
    if (weight(cost) < weight(ranked_now)) ranked.emplace_back(cost, &candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](const auto& a, const auto& b) { return weight(a.first) < weight(b.first); });

  std::vector<LayoutChange>& changes = search.changes;
  std::set<ValueId> seen;  // one layout per value
  int refused = 0;
  for (const auto& [cost, candidate] : ranked) {
    if (std::ssize(changes) == cheaper.most || refused > cheaper.most) break;
    if (seen.contains(candidate->value)) continue;
    std::optional<Trials::Result> then = trials.Costs(*candidate, cheaper.in_full);
    if (!then.has_value() || weight(then->cost) >= weight(now) || then->work > work * kSameWork) {
      ++refused;
      continue;
    }
    seen.insert(candidate->value);
    const ValueInfo& info = global.value(candidate->value);
    changes.push_back({.value = NameOf(global, info),
                       .others = candidate->others,
                       .from = info.layout->ToString(),
                       .to = candidate->layout.ToString(),
                       .location = info.location.ToString(),
                       .cost = then->cost,
                       .collectives = std::move(then->collectives)});
  }
  std::stable_sort(changes.begin(), changes.end(), [&](const LayoutChange& a, const LayoutChange& b) {
    return weight(a.cost) < weight(b.cost);
  });
  return search;
}

}  // namespace meshwork
