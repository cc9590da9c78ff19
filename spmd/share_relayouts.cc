#include "meshwork/spmd/share_relayouts.h"

#include <algorithm>
#include <utility>

#include "meshwork/ir/program.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/move_seconds.h"

namespace meshwork {
namespace {

bool MovesOperand(const Graph& graph, const Node& node, const Choice& choice) {
  for (size_t i = 0; i < node.operands.size(); ++i)
    if (choice.operands[i] != *graph.value(node.operands[i]).layout) return true;
  return false;
}

// Whether the op runs on tensors that lie otherwise. One whose operands and results agree goes on so, even if
// it leaves a sum owed: as in ChooseCuts, that is not weighed against computing the same on every device.
bool Moves(const Graph& graph, const Node& node, const Choice& choice) {
  for (size_t i = 0; i < node.results.size(); ++i)
    if (choice.results[i] != *graph.value(node.results[i]).layout) return true;
  return MovesOperand(graph, node, choice);
}

// Whether the op can run on terms that are owed alike, and owes their sum.
bool AddsOwed(const Rule& rule, size_t operands, const PartialSet& owed, AxisSet sharded) {
  return operands > 1 && rule.PassOn(std::vector<PartialSet>(operands, owed), sharded) == owed;
}

class Sharer {
 public:
  Sharer(const Graph& graph, const Topology& topology, const Replication& replication, Choices& choices)
      : graph_(graph),
        topology_(topology),
        replication_(replication),
        choices_(choices),
        all_(choices.size()),
        readers_(graph.values().size()),
        forms_(graph.values().size()) {
    for (size_t n = 0; n < choices_.size(); ++n) {
      if (!choices_[n].has_value() || !Moves(graph, graph.nodes()[n], *choices_[n])) continue;
      for (ValueId id : graph.nodes()[n].operands)
        if (readers_[id].empty() || readers_[id].back() != n) readers_[id].push_back(n);
    }
  }

  // Has ops run on what they share, results lying as they are wanted.
  void Share() {
    for (size_t n = 0; n < choices_.size(); ++n) {
      if (choices_[n].has_value()) Count(n, *choices_[n]);
      else CountForm(graph_.nodes()[n].operands[0], LayoutOf(graph_.nodes()[n].results[0]));
    }
    for (ValueId id = 0; id < static_cast<ValueId>(readers_.size()); ++id) ShareValue(id);
    ShareSums();
  }

  // What could be shared if results that are not `locked` lay as their ops leave them; at most one layout per
  // value, of which one result at least would lie otherwise than it is wanted.
  std::vector<Shareable> WithFreeResults(const std::vector<bool>& locked) {
    std::vector<Shareable> all;
    std::vector<bool> taken(choices_.size(), false);
    for (ValueId id = 0; id < static_cast<ValueId>(readers_.size()); ++id) {
      std::optional<Shareable> best;
      std::vector<size_t> best_nodes;
      for (const Layout& layout : Candidates(id)) {
        std::vector<size_t> nodes;
        Shareable shareable = WithFreeResults(id, layout, locked, taken, nodes);
        if (nodes.size() < 2 || (best.has_value() && best->gain >= shareable.gain)) continue;
        best = std::move(shareable);
        best_nodes = std::move(nodes);
      }
      if (!best.has_value() ||
          std::all_of(best->results.begin(), best->results.end(),
                      [&](const auto& result) { return LayoutOf(result.first) == result.second; }))
        continue;
      for (size_t n : best_nodes) taken[n] = true;
      all.push_back(*std::move(best));
    }
    return all;
  }

 private:
  struct Form {
    Layout layout;
    double seconds = 0;  // to make it
    int readers = 0;
  };

  const Layout& LayoutOf(ValueId id) const { return *graph_.value(id).layout; }

  bool MovesOperand(size_t n) const {
    return meshwork::MovesOperand(graph_, graph_.nodes()[n], *choices_[n]);
  }

  const std::vector<Choice>& All(size_t n) {
    if (all_[n].empty()) all_[n] = AllChoices(graph_, graph_.nodes()[n], topology_, replication_);
    return all_[n];
  }

  // ---- Costs, in seconds.

  double CostOf(ValueId id, const Layout& from, const Layout& to) const {
    return RelayoutSeconds(from, to, graph_.value(id).type, topology_);
  }

  // To read a value as it does not lie.
  double ReadCost(ValueId id, const Layout& to) const { return MoveSeconds(graph_, id, to, topology_); }

  double ArithmeticCost(size_t n, const Choice& choice) const {
    const auto shards = static_cast<double>(graph_.mesh().GroupSize(choice.sharded().ToList()));
    return FlopsOf(graph_, graph_.nodes()[n]) / shards / topology_.flops();
  }

  double ResultCost(size_t n, const Choice& choice, size_t i) const {
    const ValueId id = graph_.nodes()[n].results[i];
    return CostOf(id, choice.results[i].WithPartials(choice.reduced), LayoutOf(id));
  }

  double OwnCost(size_t n, const Choice& choice) const {
    double seconds = ArithmeticCost(n, choice);
    for (size_t i = 0; i < choice.results.size(); ++i) seconds += ResultCost(n, choice, i);
    return seconds;
  }

  Form& FormOf(ValueId id, const Layout& layout) {
    auto& forms = forms_[id];
    const auto found =
        std::find_if(forms.begin(), forms.end(), [&](const Form& form) { return form.layout == layout; });
    if (found != forms.end()) return *found;
    return forms.emplace_back(Form{layout, ReadCost(id, layout), 0});
  }

  double CountForm(ValueId id, const Layout& layout) {
    Form& form = FormOf(id, layout);
    return form.readers++ == 0 ? form.seconds : 0;
  }

  double DropForm(ValueId id, const Layout& layout) {
    Form& form = FormOf(id, layout);
    return --form.readers == 0 ? form.seconds : 0;
  }

  // The op runs so from now on: what that adds, forms of its operands that others read not counted.
  double Count(size_t n, const Choice& choice) {
    double seconds = OwnCost(n, choice);
    for (size_t i = 0; i < choice.operands.size(); ++i)
      seconds += CountForm(graph_.nodes()[n].operands[i], choice.operands[i]);
    return seconds;
  }

  // The inverse: what is saved.
  double Drop(size_t n, const Choice& choice) {
    double seconds = OwnCost(n, choice);
    for (size_t i = 0; i < choice.operands.size(); ++i)
      seconds += DropForm(graph_.nodes()[n].operands[i], choice.operands[i]);
    return seconds;
  }

  // ---- Candidates.

  // How the op would read the value, if it reads all others as they lie.
  const Layout* OthersStay(size_t n, const Choice& choice, ValueId value) const {
    const Node& node = graph_.nodes()[n];
    const Layout* layout = nullptr;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] == value) layout = &choice.operands[i];
      else if (choice.operands[i] != LayoutOf(node.operands[i])) return nullptr;
    }
    return layout;
  }

  std::vector<Layout> Candidates(ValueId value) {
    std::vector<Layout> layouts;
    if (readers_[value].size() < 2) return layouts;
    for (size_t n : readers_[value]) {
      for (const Choice& choice : All(n)) {
        const Layout* layout = OthersStay(n, choice, value);
        if (layout == nullptr || *layout == LayoutOf(value)) continue;
        if (std::find(layouts.begin(), layouts.end(), *layout) == layouts.end()) layouts.push_back(*layout);
      }
    }
    return layouts;
  }

  bool Reads(size_t n, const Choice& choice, ValueId value, const Layout& layout) const {
    const Node& node = graph_.nodes()[n];
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (node.operands[i] == value && choice.operands[i] == layout) return true;
    return false;
  }

  // One that runs on its operands as they lie goes on so, rather than gather what is beyond the budget.
  bool IsAllowed(size_t n, const Choice& choice) const {
    const Node& node = graph_.nodes()[n];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId id = node.operands[i];
      const bool elsewhere = ReadCost(id, choice.operands[i]) < CostOf(id, LayoutOf(id), choice.operands[i]);
      if (!elsewhere && replication_.Refuses(id, node.results, LayoutOf(id), choice.operands[i]) &&
          (!MovesOperand(n) || !replication_.IsImplied(id, static_cast<int>(n), LayoutOf(id))))
        return false;
    }
    return true;
  }

  bool AreResultsAllowed(size_t n, const Choice& choice) const {
    const Node& node = graph_.nodes()[n];
    for (size_t i = 0; i < node.results.size(); ++i)
      if (replication_.Refuses(node.results[i], node.results, choice.results[i], LayoutOf(node.results[i])))
        return false;
    return true;
  }

  // ---- With results as they are wanted.

  struct Switch {
    size_t node;
    Choice from, to;
  };

  void ShareValue(ValueId value) {
    std::vector<Switch> best;
    double best_gain = 0;
    for (const Layout& layout : Candidates(value)) {
      double gain = 0;
      std::vector<Switch> switches = SwitchTo(value, layout, gain);
      for (const Switch& s : switches) Drop(s.node, s.to);
      for (const Switch& s : switches) Count(s.node, s.from);
      if (gain <= best_gain) continue;
      best_gain = gain;
      best = std::move(switches);
    }
    for (const Switch& s : best) Drop(s.node, s.from);
    for (Switch& s : best) {
      Count(s.node, s.to);
      choices_[s.node] = std::move(s.to);
    }
  }

  // Has all readers that gain by it read the value so; counts them.
  std::vector<Switch> SwitchTo(ValueId value, const Layout& layout, double& gain) {
    std::vector<Switch> switches;
    double before = 0, after = CountForm(value, layout);
    for (size_t n : readers_[value]) {
      if (Reads(n, *choices_[n], value, layout)) continue;
      const bool can = std::any_of(All(n).begin(), All(n).end(), [&](const Choice& choice) {
        return Reads(n, choice, value, layout) && IsAllowed(n, choice) && AreResultsAllowed(n, choice);
      });
      if (!can) continue;
      before += Drop(n, *choices_[n]);
      switches.push_back({n, *choices_[n], *choices_[n]});
    }
    for (Switch& s : switches) {
      double least = -1;
      for (const Choice& choice : All(s.node)) {
        if (!Reads(s.node, choice, value, layout) || !IsAllowed(s.node, choice) ||
            !AreResultsAllowed(s.node, choice))
          continue;
        const double seconds = Count(s.node, choice);
        Drop(s.node, choice);
        if (least >= 0 && seconds >= least) continue;
        least = seconds;
        s.to = choice;
      }
      after += Count(s.node, s.to);
    }
    // Those that are better off as they were go back.
    std::vector<Switch> kept;
    for (Switch& s : switches) {
      const double now = Drop(s.node, s.to);
      const double then = Count(s.node, s.from);
      if (then * kLess <= now) {
        after += then - now;
        continue;
      }
      Drop(s.node, s.from);
      Count(s.node, s.to);
      kept.push_back(std::move(s));
    }
    DropForm(value, layout);
    gain = after < before * kLess ? before - after : 0;
    return kept;
  }

  // ---- Sums of what several ops leave owed.

  // A value as a sum of terms that ops can leave owed, all operands as they lie.
  struct Owing {
    PartialSet owed;
    Layout layout;                                        // of the terms
    std::vector<std::pair<size_t, const Choice*>> terms;  // none if another sum has taken them
  };

  void ShareSums() {
    std::vector<int> reads(graph_.values().size(), 0);
    for (const Node& node : graph_.nodes())
      for (ValueId id : node.operands) ++reads[id];
    for (const VariableUpdate& update : graph_.updates()) reads[update.value] += 2;
    for (const OutputInfo& output : graph_.outputs()) reads[output.value] += 2;
    std::vector<std::optional<Owing>> owing(graph_.values().size());
    for (size_t n = 0; n < choices_.size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (!choices_[n].has_value() || node.results.size() != 1) continue;
      std::optional<Owing> sum = SumOf(n, owing, reads);
      owing[node.results[0]] = sum.has_value() ? std::move(sum) : TermOf(n);
    }
    for (ValueId id = 0; id < static_cast<ValueId>(owing.size()); ++id)
      if (owing[id].has_value() && owing[id]->terms.size() > 1) ShareSum(id, *owing[id]);
  }

  std::optional<Owing> TermOf(size_t n) {
    const Node& node = graph_.nodes()[n];
    if (!Moves(graph_, node, *choices_[n])) return std::nullopt;
    for (const Choice& choice : All(n))
      if (!choice.reduced.empty() && !meshwork::MovesOperand(graph_, node, choice))
        return Owing{choice.reduced, choice.results[0], {{n, &choice}}};
    return std::nullopt;
  }

  // The terms of the operands, taken from them.
  std::optional<Owing> SumOf(size_t n, std::vector<std::optional<Owing>>& owing,
                             const std::vector<int>& reads) const {
    const Node& node = graph_.nodes()[n];
    if (node.operands.empty() || !owing[node.operands[0]].has_value()) return std::nullopt;
    const Owing& first = *owing[node.operands[0]];
    for (ValueId id : node.operands)
      if (!owing[id].has_value() || reads[id] != 1 || owing[id]->owed != first.owed ||
          owing[id]->layout != first.layout ||
          graph_.value(id).type.shape != graph_.value(node.results[0]).type.shape)
        return std::nullopt;
    if (!AddsOwed(choices_[n]->rule, node.operands.size(), first.owed, first.layout.ShardedAxes()))
      return std::nullopt;
    Owing sum{first.owed, first.layout, {}};
    for (ValueId id : node.operands) {
      auto& terms = owing[id]->terms;
      if (terms.size() > sum.terms.size()) std::swap(terms, sum.terms);
      sum.terms.insert(sum.terms.end(), terms.begin(), terms.end());
      terms.clear();
    }
    return sum;
  }

  // Leaves the terms owed, if one sum of them costs less than what they take now.
  void ShareSum(ValueId id, const Owing& sum) {
    double before = 0;
    double after = CostOf(id, sum.layout.WithPartials(sum.owed), LayoutOf(id));
    for (const auto& [n, choice] : sum.terms) {
      before += Drop(n, *choices_[n]);
      after += ArithmeticCost(n, *choice);
    }
    const bool shares = after < before * kLess;
    for (const auto& [n, choice] : sum.terms) {
      if (shares) choices_[n] = *choice;
      Count(n, *choices_[n]);
    }
  }

  // ---- With results that are free.

  Shareable WithFreeResults(ValueId value, const Layout& layout, const std::vector<bool>& locked,
                            const std::vector<bool>& taken, std::vector<size_t>& nodes) {
    Shareable shareable{.gain = -ReadCost(value, layout)};
    for (size_t n : readers_[value]) {
      if (taken[n]) continue;
      const Node& node = graph_.nodes()[n];
      double now = OwnCost(n, *choices_[n]);
      for (size_t i = 0; i < node.operands.size(); ++i)
        now += ReadCost(node.operands[i], choices_[n]->operands[i]);
      const Choice* best = nullptr;
      double least = now * kLess;
      for (const Choice& choice : All(n)) {
        const Layout* reads = OthersStay(n, choice, value);
        if (reads == nullptr || *reads != layout || !IsAllowed(n, choice)) continue;
        double seconds = ArithmeticCost(n, choice);
        for (size_t i = 0; i < node.results.size(); ++i) {
          const Layout& leaves = choice.results[i];
          seconds += locked[node.results[i]]
                         ? ResultCost(n, choice, i)
                         : CostOf(node.results[i], leaves.WithPartials(choice.reduced), leaves);
        }
        if (seconds >= least) continue;
        least = seconds;
        best = &choice;
      }
      if (best == nullptr) continue;
      nodes.push_back(n);
      shareable.gain += now - least;
      for (size_t i = 0; i < node.results.size(); ++i)
        if (!locked[node.results[i]]) shareable.results.emplace_back(node.results[i], best->results[i]);
    }
    return shareable;
  }

  const Graph& graph_;
  const Topology& topology_;
  const Replication& replication_;
  Choices& choices_;
  std::vector<std::vector<Choice>> all_;                 // per node, once asked for
  std::vector<absl::InlinedVector<size_t, 2>> readers_;  // per value: the nodes that move something
  std::vector<absl::InlinedVector<Form, 2>> forms_;
};

}  // namespace

bool MayShare(const Graph& graph, const Choices& choices) {
  std::vector<bool> moved(graph.values().size(), false), read(graph.values().size(), false);
  for (size_t n = 0; n < choices.size(); ++n) {
    if (!choices[n].has_value()) continue;
    const Node& node = graph.nodes()[n];
    const auto terms =
        std::count_if(node.operands.begin(), node.operands.end(), [&](ValueId id) { return moved[id]; });
    if (terms > 1 && AddsOwed(choices[n]->rule, node.operands.size(), {{0, ReduceOp::kSum}}, {})) return true;
    if (!Moves(graph, node, *choices[n])) continue;
    for (ValueId id : node.results) moved[id] = true;
    std::vector<ValueId> operands(node.operands.begin(), node.operands.end());
    std::sort(operands.begin(), operands.end());
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    for (ValueId id : operands) {
      if (read[id]) return true;
      read[id] = true;
    }
  }
  return false;
}

void ShareRelayouts(const Graph& graph, const Topology& topology, const Replication& replication,
                    Choices& choices) {
  if (MayShare(graph, choices)) Sharer(graph, topology, replication, choices).Share();
}

std::vector<Shareable> Shareables(const Graph& graph, const Topology& topology,
                                  const Replication& replication, Choices choices,
                                  const std::vector<bool>& locked) {
  return Sharer(graph, topology, replication, choices).WithFreeResults(locked);
}

}  // namespace meshwork
