#include "meshwork/spmd/cheaper_layouts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/fold_repeats.h"
#include "meshwork/spmd/optimizer_state.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/short_program.h"

namespace meshwork {
namespace {

constexpr int64_t kMostTried = 64;
// Values of several layers are alike if all that lies up to so many ops away is. Fewer would not tell the weights of
// queries and keys apart.
constexpr int kRoundsAlike = 4;
// Programs of few layers are so many layers apart: an even number, as layers may lie in two ways by turns.
constexpr int kApart = 2;
// Costs are reckoned if, for the step as it is, they come as close to what it costs: this part of it.
constexpr double kReckoned = 0.01;

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

// The step with one layout changed: the whole program, or where layers repeat, two programs of few of them, of which the
// second has kApart more.
class Trials {
 public:
  Trials(const Graph& global, const CompileOptions& options)
      : global_(global), options_(options), states_(global) {
    options_.verify = false;
    options_.dump = nullptr;
    // Memory counts in the whole.
    if (options.memory_budget > 0) return;
    for (int kept : {2, 2 + kApart}) {
      std::optional<ShortProgram> made = ShortProgramOf(global, options.replication_budget, kept);
      if (made.has_value()) short_.push_back(*std::move(made));
    }
    const size_t left_out = short_.empty() ? 0 : global.nodes().size() - short_[0].graph.nodes().size();
    const size_t layer =
        short_.size() < 2 ? 0 : (short_[1].graph.nodes().size() - short_[0].graph.nodes().size()) / kApart;
    if (layer == 0 || left_out % layer != 0) short_.clear();
    else layers_ = static_cast<int64_t>(left_out / layer);
  }

  bool repeats() const { return !short_.empty(); }
  void LookAtAll() { short_.clear(); }
  // Of the program that Rank compiles.
  int64_t nodes() const {
    return static_cast<int64_t>((repeats() ? short_[0].graph : global_).nodes().size());
  }

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
    if (!repeats()) return Compile(With(global_, nullptr, candidate), quick);
    return CompileWith(With(short_[0].graph, &short_[0].value_of, candidate), quick,
                       {.left_out = {"choose_layouts"}});
  }

  struct Result {
    StepCost cost;
    double work;
    std::vector<ExplainedCollective> collectives = {};
  };
  // Of the whole step, compiled with the candidate; nothing if budgets do not allow that.
  std::optional<Result> CostsInFull(const Candidate& candidate) const {
    const absl::StatusOr<Program> program = Compile(With(global_, nullptr, &candidate), options_);
    if (!program.ok()) return std::nullopt;
    Explanation then = Explain(*program, options_.topology);
    return Result{then.cost, WorkOf(program->body), std::move(then.collectives)};
  }

  // The same by few layers; null: without a candidate. Nothing also where a layer more would cost less, which cannot go on
  // for many. REQUIRES: repeats().
  std::optional<Result> Reckoned(const Candidate* candidate) const {
    std::vector<Result> results;
    for (const ShortProgram& few : short_) {
      const absl::StatusOr<Program> program = Compile(With(few.graph, &few.value_of, candidate), options_);
      if (!program.ok()) return std::nullopt;
      results.push_back({CostOf(program->body, options_.topology), WorkOf(program->body)});
    }
    return Extended(results[0], results[1]);
  }
  // Whether that comes to what the step costs as it is: `now`. REQUIRES: repeats().
  bool Reckons(const StepCost& now) const {
    const std::optional<Result> reckoned = Reckoned(nullptr);
    const auto is_near = [](auto a, auto b) {
      return std::abs(static_cast<double>(a) - static_cast<double>(b)) <= kReckoned * static_cast<double>(b);
    };
    return reckoned.has_value() && is_near(reckoned->cost.bytes, now.bytes) &&
           is_near(reckoned->cost.collectives, now.collectives) &&
           is_near(reckoned->cost.seconds, now.seconds) && is_near(reckoned->cost.peak_bytes, now.peak_bytes);
  }

  // How many values of the whole program each one stands for, on average, that the candidate changes in the program that
  // Rank compiles.
  double TimesOf(const Candidate& candidate) const {
    if (!repeats()) return 1;
    std::set<ValueId> few;
    for (ValueId id : candidate.alike) few.insert(short_[0].value_of[id]);
    return static_cast<double>(candidate.alike.size()) / static_cast<double>(few.size());
  }

 private:
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
    if (repeats()) join(FoldAlike(global_, kRoundsAlike, {}, {}).value_of, first.size());
    // Those that one value of a short program stands for are not told apart there.
    for (const ShortProgram& few : short_) join(few.value_of, few.graph.values().size());
    std::vector<std::vector<ValueId>> alike(first.size());
    for (ValueId id = 0; id < size; ++id) alike[find(id)].push_back(id);
    return alike;
  }

  // What the whole costs, where `fewer` and `more` are kApart layers apart. Nothing where that is less than nothing.
  std::optional<Result> Extended(const Result& fewer, const Result& more) const {
    const StepCost &a = fewer.cost, &b = more.cost;
    bool grows = true;
    const auto extended = [&](int64_t from, int64_t to) {
      grows = grows && to >= from;
      return SaturatedSum(from, SaturatedProduct(layers_, to - from) / kApart);
    };
    const double layers = static_cast<double>(layers_) / kApart;
    const Result whole = {{.collectives = extended(a.collectives, b.collectives),
                           .bytes = extended(a.bytes, b.bytes),
                           .received = extended(a.received, b.received),
                           .seconds = a.seconds + layers * (b.seconds - a.seconds),
                           .peak_bytes = extended(a.peak_bytes, b.peak_bytes)},
                          fewer.work + layers * (more.work - fewer.work)};
    if (!grows || b.seconds < a.seconds) return std::nullopt;
    return whole;
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
  const StepCost now = CostOf(program.body, options.topology);
  const double work = WorkOf(program.body);
  Trials trials(global, options);
  if (trials.repeats() && !trials.Reckons(now)) trials.LookAtAll();
  std::vector<Candidate> candidates = trials.Candidates();
  LayoutSearch search{.layouts = std::ssize(candidates),
                      .by_few_layers = trials.repeats() && !cheaper.in_full};
  search.tried = std::min({search.layouts, kMostTried,
                           std::max<int64_t>(1, cheaper.most_nodes / std::max<int64_t>(1, trials.nodes()))});
  candidates.erase(candidates.begin() + search.tried, candidates.end());

  // The best by what a quick compile says: of few layers, by what all of them save.
  StepCost ranked_now = now;
  double ranked_work = work;
  if (trials.repeats()) {
    const absl::StatusOr<Program> quick = trials.Rank(nullptr);
    MESHWORK_CHECK(quick.ok(), "a program of few layers, which has compiled");
    ranked_now = CostOf(quick->body, options.topology);
    ranked_work = WorkOf(quick->body);
  }
  struct Ranked {
    const Candidate* candidate;
    double seconds, bytes;  // more than now, in the whole
    int64_t collectives;
  };
  std::vector<Ranked> ranked;
  for (const Candidate& candidate : candidates) {
    const absl::StatusOr<Program> other = trials.Rank(&candidate);
    if (!other.ok() || WorkOf(other->body) > ranked_work * kSameWork) continue;
    const StepCost cost = CostOf(other->body, options.topology);
    if (weight(cost) >= weight(ranked_now)) continue;
    const double times = trials.TimesOf(candidate);
    ranked.push_back({&candidate, times * (cost.seconds - ranked_now.seconds),
                      times * static_cast<double>(cost.bytes - ranked_now.bytes),
                      cost.collectives - ranked_now.collectives});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::tie(a.seconds, a.bytes, a.collectives) < std::tie(b.seconds, b.bytes, b.collectives);
  });

  std::vector<LayoutChange>& changes = search.changes;
  std::set<ValueId> seen;  // one layout per value
  int refused = 0;
  for (const Ranked& one : ranked) {
    const Candidate& candidate = *one.candidate;
    if (std::ssize(changes) == cheaper.most || refused > cheaper.most) break;
    if (seen.contains(candidate.value)) continue;
    std::optional<Trials::Result> then =
        search.by_few_layers ? trials.Reckoned(&candidate) : trials.CostsInFull(candidate);
    if (!then.has_value()) {
      ++refused;
      continue;
    }
    if (weight(then->cost) >= weight(now) || then->work > work * kSameWork) continue;
    seen.insert(candidate.value);
    const ValueInfo& info = global.value(candidate.value);
    changes.push_back({.value = NameOf(global, info),
                       .others = candidate.others,
                       .from = info.layout->ToString(),
                       .to = candidate.layout.ToString(),
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
