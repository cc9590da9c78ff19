#include "meshwork/spmd/planner/delay_scatters.h"

#include <algorithm>
#include <utility>

#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/readers.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/may_wait.h"
#include "meshwork/spmd/planner/move_seconds.h"
#include "meshwork/spmd/planner/strided.h"

namespace meshwork {
namespace {

class ScatterDelayer {
 public:
  ScatterDelayer(const Graph& graph, const Topology& topology, const Replication& replication,
                 std::vector<std::optional<Choice>>& choices)
      : graph_(graph),
        topology_(topology),
        replication_(replication),
        choices_(choices),
        passing_(choices.size()),
        settled_(choices.size()),
        owed_(graph.values().size()),
        readers_(ReadersOf(graph)) {}

  void Run() {
    for (size_t n = 0; n < choices_.size(); ++n) {
      if (!choices_[n].has_value()) continue;
      const Node& node = graph_.nodes()[n];
      if (settled_[n].has_value()) {
        owed_[node.results[0]] = *settled_[n];
      } else if (std::optional<Later> later = Delayed(node, *choices_[n])) {
        owed_[node.results[0]] = later->owed;
        passing_[n] = std::move(later);
        if (passing_[n]->saves > 0) Commit(n);
      } else {
        owed_[node.results[0]] = choices_[n]->reduced;
      }
      for (ValueId id : node.results)
        if (readers_[id].size() > 1 && readers_.exits(id) == 0 && !owed_[id].empty()) DelayForAll(id);
    }
  }

 private:
  // How an op would run on operands that are not scattered yet.
  struct Later {
    Choice choice;
    PartialSet owed;   // by its result
    double saves = 0;  // seconds, including those of the ops before it that would then run so, too
  };

  // Lets all ops that read a value run on the sum that it owes, or none of them. REQUIRES: several ops read it, and it
  // does not leave the program.
  void DelayForAll(ValueId id) {
    const int definer = graph_.value(id).node;
    std::vector<Later> all;
    double scatters = 0, scatter = 0;  // of each for itself, of the one that sends most
    for (const auto [n, i] : readers_[id]) {
      if (!choices_[n].has_value()) return;
      const Node& node = graph_.nodes()[n];
      // Its other operands must come before the value: what they owe is known by now.
      for (ValueId other : node.operands)
        if (graph_.value(other).node > definer) return;
      if (std::count(node.operands.begin(), node.operands.end(), id) > 1) return;
      std::optional<Later> later = Delayed(node, *choices_[n], id);
      if (!later.has_value()) return;
      const double seconds = RelayoutSeconds(later->choice.operands[i].WithPartials(owed_[id]),
                                             choices_[n]->operands[i], graph_.value(id).type, topology_);
      scatters += seconds;
      scatter = std::max(scatter, seconds);
      all.push_back(*std::move(later));
    }
    double saves = scatter - scatters;
    for (const Later& later : all) saves += later.saves;
    const std::optional<Later>& before = passing_[definer];
    if (before.has_value()) saves -= before->saves * static_cast<double>(all.size() - 1);
    if (saves <= 0) return;
    for (size_t i = 0; i < all.size(); ++i) {
      choices_[readers_[id][i].node] = all[i].choice;
      settled_[readers_[id][i].node] = all[i].owed;
    }
    if (before.has_value()) Commit(static_cast<size_t>(definer));
  }

  // Makes op n, and the ops before it that wait for it, run on operands that owe.
  void Commit(size_t n) {
    choices_[n] = passing_[n]->choice;
    passing_[n].reset();
    for (ValueId id : graph_.nodes()[n].operands) {
      const int from = graph_.value(id).node;
      if (from >= 0 && passing_[from].has_value()) Commit(static_cast<size_t>(from));
    }
  }

  // The layout of a value while it owes.
  const Layout& LiesOwing(ValueId id) const {
    const int from = graph_.value(id).node;
    return (passing_[from].has_value() ? passing_[from]->choice : *choices_[from]).results[0];
  }

  // How the op would run on operands that owe. Nothing if it cannot pass on what they owe, if the axes owed
  // would not cut it otherwise, or if it does not pay. `shared`: a value whose readers are all asked.
  std::optional<Later> Delayed(const Node& node, const Choice& now, ValueId shared = kNoValue) const {
    if (node.results.size() != 1 || node.row->name == "reshape") return std::nullopt;
    const ValueInfo& result = graph_.value(node.results[0]);
    std::vector<PartialSet> sets;
    PartialSet owed;
    int owing = 0;
    bool shrinks = false;
    for (ValueId id : node.operands) {
      sets.push_back(owed_[id]);
      if (owed_[id].empty()) continue;
      // An operand that others read is scattered for them in any case; a small operand of a larger result is better
      // summed before.
      const int64_t bytes = graph_.value(id).type.bytes();
      if ((!readers_.IsReadOnce(id) && id != shared) || bytes < result.type.bytes()) return std::nullopt;
      shrinks |= bytes > result.type.bytes();
      owed = owed_[id];
      ++owing;
    }
    AxisSet axes;
    for (const Partial& partial : owed) axes.Add(partial.axis);
    if (!axes.Intersects(now.sharded())) return std::nullopt;
    Later later{now, {}, 0};
    if (!CutAsOwed(node, later.choice) || IsRefused(node, later.choice)) return std::nullopt;
    const std::optional<PartialSet> passed = now.rule->PassOn(sets, later.choice.sharded());
    if (!passed.has_value() || !MayWait(graph_, node, *now.rule, sets)) return std::nullopt;
    // Reductions of two kinds do not commute.
    const PartialSet& reduced = later.choice.reduced;
    if (!passed->empty() && !reduced.empty() && passed->front().op != reduced.front().op) return std::nullopt;
    later.owed = UnionOf(*passed, reduced);
    later.saves = Saves(node, now, later);
    // An op that keeps the size of its one owing operand saves nothing itself, but ops after it may.
    if ((owing > 1 || !now.reduced.empty()) && later.saves <= 0) return std::nullopt;
    if (owing == 1 && !shrinks) later.saves = std::min(later.saves, 0.0);
    return later;
  }

  // Cuts the letters of the owing operands as these lie, and no others. False if the op cannot run so.
  bool CutAsOwed(const Node& node, Choice& choice) const {
    const Rule& rule = *choice.rule;
    std::vector<bool> seen(rule.letters.size(), false);
    choice.cuts.assign(rule.letters.size(), Whole());
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (owed_[node.operands[i]].empty()) continue;
      const Layout& lies = LiesOwing(node.operands[i]);
      for (size_t d = 0; d < rule.operands[i].size(); ++d) {
        const int l = rule.operands[i][d];
        const Cut cut = lies.Factors(static_cast<int>(d), 1);
        if (l == kNoLetter || !MayBeCut(graph_.mesh(), *node.row, rule.letters[l], cut)) {
          if (cut != Whole()) return false;
          continue;
        }
        if (seen[l] && choice.cuts[l] != cut) return false;
        choice.cuts[l] = cut;
        seen[l] = true;
      }
    }
    if (!AreExchangeable(rule, choice.cuts) || !CutsByDifferentAxes(node, choice.cuts)) return false;
    for (size_t i = 0; i < node.operands.size(); ++i)
      choice.operands[i] = LayoutOf(graph_.mesh(), rule.operands[i], choice.cuts);
    choice.results[0] = LayoutOf(graph_.mesh(), rule.results[0], choice.cuts);
    choice.reduced = ReducedBy(rule, choice.cuts);
    return true;
  }

  // Whether each axis cuts at most one letter, and none if an operand owes over it. Each operand has its own layout,
  // so this may not hold.
  bool CutsByDifferentAxes(const Node& node, const std::vector<Cut>& cuts) const {
    AxisSet used;
    for (ValueId id : node.operands)
      for (const Partial& partial : owed_[id]) used.Add(partial.axis);
    for (const Cut& cut : cuts) {
      const AxisSet axes = AxesOf(cut);
      if (axes.Intersects(used)) return false;
      used = used.Union(axes);
    }
    return true;
  }

  bool IsRefused(const Node& node, const Choice& choice) const {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId id = node.operands[i];
      if (replication_.Refuses(id, node.results, *graph_.value(id).layout, choice.operands[i])) return true;
    }
    return false;
  }

  double Saves(const Node& node, const Choice& now, const Later& later) const {
    const ValueInfo& result = graph_.value(node.results[0]);
    double saves = 0;
    auto count = [&](double sign, const Layout& from, const Layout& to, const Type& type) {
      saves += sign * RelayoutSeconds(from, to, type, topology_);
    };
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueInfo& info = graph_.value(node.operands[i]);
      const PartialSet& owed = owed_[node.operands[i]];
      if (owed.empty()) {
        count(1, *info.layout, now.operands[i], info.type);
        count(-1, *info.layout, later.choice.operands[i], info.type);
        continue;
      }
      count(1, later.choice.operands[i].WithPartials(owed), now.operands[i], info.type);
      const std::optional<Later>& before = passing_[static_cast<size_t>(info.node)];
      if (before.has_value()) saves += before->saves;
    }
    count(1, now.results[0].WithPartials(now.reduced), *result.layout, result.type);
    count(-1, later.choice.results[0].WithPartials(later.owed), *result.layout, result.type);
    const double work = FlopsOf(graph_, node) / topology_.flops();
    return saves + work / Shards(now) - work / Shards(later.choice);
  }

  double Shards(const Choice& choice) const {
    return static_cast<double>(graph_.mesh().GroupSize(choice.sharded().ToList()));
  }

  const Graph& graph_;
  const Topology& topology_;
  const Replication& replication_;
  std::vector<std::optional<Choice>>& choices_;
  std::vector<std::optional<Later>> passing_;       // per node: how it runs if an op after it runs on sums
  std::vector<std::optional<PartialSet>> settled_;  // per node that runs on what is owed: what it then owes
  std::vector<PartialSet> owed_;                    // per value, by what its op reduces or passes on here
  const Readers readers_;
};

}  // namespace

void DelayScatters(const Graph& graph, const Topology& topology, const Replication& replication,
                   std::vector<std::optional<Choice>>& choices) {
  ScatterDelayer(graph, topology, replication, choices).Run();
}

}  // namespace meshwork
