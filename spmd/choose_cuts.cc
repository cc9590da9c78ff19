#include "meshwork/spmd/choose_cuts.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/control/loops.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/reshape.h"
#include "meshwork/spmd/may_wait.h"
#include "meshwork/spmd/move_seconds.h"
#include "meshwork/spmd/share_relayouts.h"
#include "meshwork/spmd/strided.h"

namespace meshwork {
namespace {

// Letters on many axes that nobody agrees on have exponentially many combinations; the first so many
// are costed, the most sharded ones.
constexpr int kMaxCombinations = 4096;

PartialSet ReducedBy(const Rule& rule, const LetterCuts& cuts) {
  PartialSet partials;
  for (size_t l = 0; l < rule.letters.size(); ++l)
    if (rule.letters[l].reduced)
      for (int axis : AxesOf(cuts[l]).ToList()) partials.push_back({axis, rule.reduce});
  return partials;
}

// Chooses how one op's letters are cut.
class LetterChooser {
 public:
  LetterChooser(const Graph& graph, const Node& node, const Topology& topology,
                const Replication& replication)
      : graph_(graph),
        node_(node),
        topology_(topology),
        replication_(replication),
        rule_(RuleOf(graph, node)) {
    offers_.resize(rule_.letters.size());
    Collect(rule_.operands, node.operands);
    Collect(rule_.results, node.results);
    CollectMoved();
    flops_ = FlopsOf(graph, node);
  }

  Choice Choose() {
    if (IsExactMark(node_)) return ChoiceOf(AsResultLies());
    if (node_.row->name == "reshape") {
      TryUnmoved();
      if (best_.has_value() && best_->operands[0] == LayoutOf(node_.operands[0]) &&
          best_->results[0] == LayoutOf(node_.results[0]))
        return *std::move(best_);
    }
    if (std::optional<LetterCuts> agreed = Agreed(); agreed.has_value() && !ReducesOverParts(*agreed))
      return ChoiceOf(*agreed);
    LetterCuts cuts(rule_.letters.size(), Whole());
    Try(0, AxisSet(), cuts);
    MESHWORK_CHECK(best_.has_value());
    if (best_costs_.refused > 0) {
      if (in_place_.has_value()) return *std::move(in_place_);
      if (implied_.has_value()) return *std::move(implied_);
    }
    return *std::move(best_);
  }

  std::vector<Choice> All() {
    if (IsExactMark(node_)) return {ChoiceOf(AsResultLies())};
    std::vector<Choice> all;
    all_ = &all;
    if (node_.row->name == "reshape") TryUnmoved();
    LetterCuts cuts(rule_.letters.size(), Whole());
    Try(0, AxisSet(), cuts);
    return all;
  }

 private:
  LetterCuts AsResultLies() const {
    LetterCuts cuts(rule_.letters.size(), Whole());
    const LetterList& letters = rule_.results[0];
    for (size_t d = 0; d < letters.size(); ++d)
      if (letters[d] != kNoLetter)
        cuts[letters[d]] = LayoutOf(node_.results[0]).Factors(static_cast<int>(d), 1);
    return cuts;
  }

  void Collect(const std::vector<LetterList>& lists, std::span<const ValueId> values) {
    for (size_t i = 0; i < lists.size(); ++i) {
      for (size_t d = 0; d < lists[i].size(); ++d) {
        const int l = lists[i][d];
        if (l == kNoLetter) continue;
        Cut cut = LayoutOf(values[i]).Factors(static_cast<int>(d), 1);
        if (AxesOf(cut).empty() || !MayBeCut(graph_.mesh(), *node_.row, rule_.letters[l], cut)) continue;
        auto& offers = offers_[l];
        if (std::find(offers.begin(), offers.end(), cut) == offers.end()) offers.push_back(std::move(cut));
      }
    }
  }

  // Where a dim is cut that the op must have whole, and by axes that could cut nothing else of it, all their
  // devices would do the same: they are offered to the letters that they may cut, an all-to-all away.
  void CollectMoved() {
    AxisSet used;
    for (const auto& offers : offers_)
      for (const Cut& cut : offers) used = used.Union(AxisSet(AxesOf(cut)));
    for (size_t i = 0; i < rule_.operands.size(); ++i) {
      for (size_t d = 0; d < rule_.operands[i].size(); ++d) {
        const Cut cut = LayoutOf(node_.operands[i]).Factors(static_cast<int>(d), 1);
        const AxisSet axes(AxesOf(cut));
        if (rule_.operands[i][d] == kNoLetter || axes.empty() || cut.size() > 1 || used.Intersects(axes))
          continue;
        for (size_t l = 0; l < rule_.letters.size(); ++l) {
          const Letter& letter = rule_.letters[l];
          auto& offers = offers_[l];
          if (!letter.reduced && letter.size >= graph_.mesh().GroupSize(cut[0].axes) &&
              MayBeCut(graph_.mesh(), *node_.row, letter, cut) &&
              std::find(offers.begin(), offers.end(), cut) == offers.end())
            offers.push_back(cut);
        }
      }
    }
  }

  const Layout& LayoutOf(ValueId value) const { return *graph_.value(value).layout; }

  // How the letters are cut if nothing has to move: all tensors agree on every letter.
  std::optional<LetterCuts> Agreed() const {
    LetterCuts cuts(rule_.letters.size(), Whole());
    std::vector<bool> seen(rule_.letters.size(), false);
    AxisSet used;
    auto agree = [&](const std::vector<LetterList>& lists, std::span<const ValueId> values) {
      for (size_t i = 0; i < lists.size(); ++i) {
        for (size_t d = 0; d < lists[i].size(); ++d) {
          const Cut have = LayoutOf(values[i]).Factors(static_cast<int>(d), 1);
          const int l = lists[i][d];
          if (l == kNoLetter || seen[l]) {
            if (have != (l == kNoLetter ? Whole() : cuts[l])) return false;
            continue;
          }
          const AxisSet axes = AxesOf(have);
          const bool offered = std::find(offers_[l].begin(), offers_[l].end(), have) != offers_[l].end();
          if (!axes.empty() && (!offered || used.Intersects(axes))) return false;
          seen[l] = true;
          cuts[l] = have;
          used = used.Union(axes);
        }
      }
      return true;
    };
    if (!agree(rule_.operands, node_.operands) || !agree(rule_.results, node_.results)) return std::nullopt;
    if (!AreExchangeable(rule_, cuts)) return std::nullopt;
    return cuts;
  }

  // Whether a reduced letter is cut by part of an axis. A reshape has left it there and nobody asked for it,
  // so that gathering the operands may be cheaper than reducing the result.
  bool ReducesOverParts(const LetterCuts& cuts) const {
    for (size_t l = 0; l < cuts.size(); ++l) {
      if (!rule_.letters[l].reduced) continue;
      for (const Factor& factor : cuts[l])
        for (const std::string& name : graph_.mesh().NamesOf(factor.axes))
          if (name.find(':') != std::string::npos) return true;
    }
    return false;
  }

  // Tries every combination of offers from letter l on; offers come first, "whole" last, so that of
  // equal costs the more sharded one is kept.
  void Try(size_t l, AxisSet used, LetterCuts& cuts) {
    if (tried_ == kMaxCombinations) return;
    if (l == cuts.size()) {
      ++tried_;
      if (!AreExchangeable(rule_, cuts)) return;
      Consider(ChoiceOf(cuts));
      return;
    }
    for (const Cut& offer : offers_[l]) {
      const AxisSet axes = AxesOf(offer);
      if (used.Intersects(axes)) continue;
      cuts[l] = offer;
      Try(l + 1, used.Union(axes), cuts);
    }
    cuts[l] = Whole();
    Try(l + 1, used, cuts);
  }

  // A reshape needs no letters where the elements that a device has, in their order, are a part of the result
  // as well: as the operand lies, or as the result is wanted.
  void TryUnmoved() {
    const ValueInfo &from = graph_.value(node_.operands[0]), &to = graph_.value(node_.results[0]);
    const LetterCuts whole(rule_.letters.size(), Whole());
    if (std::optional<Layout> result = Reshaped(*from.layout, from.type.shape, to.type.shape))
      Consider({rule_, whole, {}, {*from.layout}, {*std::move(result)}});
    if (std::optional<Layout> operand = Reshaped(*to.layout, to.type.shape, from.type.shape))
      Consider({rule_, whole, {}, {*std::move(operand)}, {*to.layout}});
  }

  Choice ChoiceOf(const LetterCuts& cuts) const {
    Choice choice{rule_, cuts, ReducedBy(rule_, cuts), {}, {}};
    for (const LetterList& letters : rule_.operands)
      choice.operands.push_back(meshwork::LayoutOf(graph_.mesh(), letters, cuts));
    for (const LetterList& letters : rule_.results)
      choice.results.push_back(meshwork::LayoutOf(graph_.mesh(), letters, cuts));
    return choice;
  }

  // What it takes to run the op so.
  struct Costs {
    double seconds = 0;
    int64_t refused = 0;  // bytes that are gathered and must not be
    bool sends_operand = false;
    bool sends_unasked = false;  // what is refused and not implied by the layouts, or to sum it

    bool IsLessThan(const Costs& other) const {
      return seconds != other.seconds ? seconds < other.seconds : refused < other.refused;
    }
  };

  void Consider(const Choice& choice) {
    if (all_ != nullptr) {
      all_->push_back(choice);
      return;
    }
    const Costs costs = CostsOf(choice);
    auto offer = [&](std::optional<Choice>& cheapest, Costs& cheapest_costs) {
      if (cheapest.has_value() && !costs.IsLessThan(cheapest_costs)) return;
      cheapest = choice;
      cheapest_costs = costs;
    };
    offer(best_, best_costs_);
    if (!costs.sends_operand && costs.refused == 0) offer(in_place_, in_place_costs_);
    if (!costs.sends_unasked) offer(implied_, implied_costs_);
  }

  Costs CostsOf(const Choice& choice) const {
    Costs costs;
    auto refuse = [&](ValueId id, const Layout& from, const Layout& to) {
      const bool is_refused = replication_.Refuses(id, node_.results, from, to);
      if (is_refused) costs.refused += graph_.value(id).type.bytes();
      return is_refused;
    };
    for (size_t i = 0; i < node_.operands.size(); ++i) {
      const ValueId id = node_.operands[i];
      const Layout& to = choice.operands[i];
      const double seconds = MoveSeconds(graph_, id, to, topology_);
      costs.seconds += seconds;
      costs.sends_operand |= seconds > 0;
      if (seconds == 0) continue;
      const bool is_refused = refuse(id, LayoutOf(id), to);
      costs.sends_unasked |= IsUnasked(id, is_refused, choice);
    }
    for (size_t i = 0; i < node_.results.size(); ++i) {
      const ValueId id = node_.results[i];
      const Layout lies = choice.results[i].WithPartials(choice.reduced);
      costs.seconds +=
          RelayoutSeconds(lies, LayoutOf(id), graph_.value(id).type, topology_, OnlyMoves(rule_));
      costs.sends_unasked |= refuse(id, lies, LayoutOf(id));
    }
    const auto shards = static_cast<double>(graph_.mesh().GroupSize(choice.sharded().ToList()));
    costs.seconds += flops_ / shards / topology_.flops();
    return costs;
  }

  // Whether nobody asks for it that the op gets the operand so: it is gathered for no letter of others, or
  // leaves axes over which the op then sums, as the rows of a batch do for a weight that is cut along k.
  bool IsUnasked(ValueId operand, bool is_refused, const Choice& choice) const {
    const Layout& has = LayoutOf(operand);
    const bool is_summed = std::any_of(choice.reduced.begin(), choice.reduced.end(),
                                       [&](const Partial& p) { return has.ShardedAxes().Contains(p.axis); });
    return is_summed ||
           (is_refused && !replication_.IsImplied(operand, graph_.value(node_.results[0]).node, has));
  }

  const Graph& graph_;
  const Node& node_;
  const Topology& topology_;
  const Replication& replication_;
  Rule rule_;
  std::vector<absl::InlinedVector<Cut, 2>> offers_;
  double flops_ = 0;
  std::optional<Choice> best_;
  std::optional<Choice> in_place_;  // on the operands as they lie, gathering nothing that is refused
  std::optional<Choice> implied_;   // gathering what the layouts imply, and nothing else that is refused
  Costs best_costs_, in_place_costs_, implied_costs_;
  int tried_ = 0;
  std::vector<Choice>* all_ = nullptr;  // where to list what is tried, instead of costing it
};

// Has an op run on sums before they are scattered, where its result is less to scatter: where operands owe
// the same over axes by which it would be cut, and it can pass that on, it runs on what they are. That is
// less where several operands owe, or where the op shrinks what one of them owes. So do ops on the way there
// that pass on what one operand owes, as a factor does.
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
        readers_(graph.values().size()) {
    for (size_t n = 0; n < graph.nodes().size(); ++n)
      for (ValueId id : graph.nodes()[n].operands) readers_[id].push_back(static_cast<int>(n));
    for (const VariableUpdate& update : graph.updates()) readers_[update.value].assign(2, kLeaves);
    for (const OutputInfo& output : graph.outputs()) readers_[output.value].assign(2, kLeaves);
  }

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
        if (readers_[id].size() > 1 && !owed_[id].empty()) DelayForAll(id);
    }
  }

 private:
  static constexpr int kLeaves = -1;  // for a reader: an update or an output

  // How an op would run on operands that are not scattered yet.
  struct Later {
    Choice choice;
    PartialSet owed;   // by its result
    double saves = 0;  // seconds, with those of ops that would run so for its sake
  };

  // Where several ops read a value, it is scattered once for all of them, or for none.
  void DelayForAll(ValueId id) {
    const int definer = graph_.value(id).node;
    std::vector<Later> all;
    double scatters = 0, scatter = 0;  // of each for itself, of the one that sends most
    for (int n : readers_[id]) {
      if (n == kLeaves || !choices_[n].has_value()) return;
      const Node& node = graph_.nodes()[n];
      // What else it reads must be known by now.
      for (ValueId other : node.operands)
        if (graph_.value(other).node > definer) return;
      if (std::count(node.operands.begin(), node.operands.end(), id) > 1) return;
      std::optional<Later> later = Delayed(node, *choices_[n], id);
      if (!later.has_value()) return;
      const auto i = std::find(node.operands.begin(), node.operands.end(), id) - node.operands.begin();
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
      choices_[readers_[id][i]] = all[i].choice;
      settled_[readers_[id][i]] = all[i].owed;
    }
    if (before.has_value()) Commit(static_cast<size_t>(definer));
  }

  // The op and those before it that wait for it run on what is owed.
  void Commit(size_t n) {
    choices_[n] = passing_[n]->choice;
    passing_[n].reset();
    for (ValueId id : graph_.nodes()[n].operands) {
      const int from = graph_.value(id).node;
      if (from >= 0 && passing_[from].has_value()) Commit(static_cast<size_t>(from));
    }
  }

  // How a value lies as long as it owes.
  const Layout& LiesOwing(ValueId id) const {
    const int from = graph_.value(id).node;
    return (passing_[from].has_value() ? passing_[from]->choice : *choices_[from]).results[0];
  }

  // The op on what its operands owe, if it can pass that on and would be cut by the axes otherwise. All
  // readers of `shared` are asked.
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
      // One that others read is scattered for them in any case; one that grows is better summed before.
      const int64_t bytes = graph_.value(id).type.bytes();
      if ((readers_[id].size() != 1 && id != shared) || bytes < result.type.bytes()) return std::nullopt;
      shrinks |= bytes > result.type.bytes();
      owed = owed_[id];
      ++owing;
    }
    AxisSet axes;
    for (const Partial& partial : owed) axes.Add(partial.axis);
    if (!axes.Intersects(now.sharded())) return std::nullopt;
    Later later{now, {}, 0};
    if (!CutAsOwed(node, later.choice) || IsRefused(node, later.choice)) return std::nullopt;
    const std::optional<PartialSet> passed = now.rule.PassOn(sets, later.choice.sharded());
    if (!passed.has_value() || !MayWait(graph_, node, now.rule, sets)) return std::nullopt;
    std::optional<PartialSet> all = Both(*passed, later.choice.reduced);
    if (!all.has_value()) return std::nullopt;
    later.owed = *std::move(all);
    later.saves = Saves(node, now, later);
    // For a sum of one that keeps its size there is nothing to be saved yet.
    if ((owing > 1 || !now.reduced.empty()) && later.saves <= 0) return std::nullopt;
    if (owing == 1 && !shrinks) later.saves = std::min(later.saves, 0.0);
    return later;
  }

  // What an op leaves owed that passes on one set and reduces by another; nothing if they do not commute.
  static std::optional<PartialSet> Both(PartialSet passed, const PartialSet& reduced) {
    if (!passed.empty() && !reduced.empty() && passed.front().op != reduced.front().op) return std::nullopt;
    passed.insert(passed.end(), reduced.begin(), reduced.end());
    std::sort(passed.begin(), passed.end(),
              [](const Partial& a, const Partial& b) { return a.axis < b.axis; });
    return passed;
  }

  // Cuts the letters as the owing operands lie, the others of those by nothing.
  bool CutAsOwed(const Node& node, Choice& choice) const {
    const Rule& rule = choice.rule;
    std::vector<bool> seen(rule.letters.size(), false);
    choice.cuts.assign(rule.letters.size(), Whole());
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (owed_[node.operands[i]].empty()) continue;
      const Layout& lies = LiesOwing(node.operands[i]);
      for (size_t d = 0; d < rule.operands[i].size(); ++d) {
        const int l = rule.operands[i][d];
        const Cut cut = lies.Factors(static_cast<int>(d), 1);
        if (l == kNoLetter || rule.letters[l].whole ||
            (cut.size() > 1 && !MayBeStrided(*node.row, rule.letters[l]))) {
          if (cut != Whole()) return false;
          continue;
        }
        if (seen[l] && choice.cuts[l] != cut) return false;
        choice.cuts[l] = cut;
        seen[l] = true;
      }
    }
    for (size_t i = 0; i < node.operands.size(); ++i)
      choice.operands[i] = LayoutOf(graph_.mesh(), rule.operands[i], choice.cuts);
    choice.results[0] = LayoutOf(graph_.mesh(), rule.results[0], choice.cuts);
    choice.reduced = ReducedBy(rule, choice.cuts);
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
  std::vector<std::optional<Later>> passing_;         // per node; it runs so if a sum after it does
  std::vector<std::optional<PartialSet>> settled_;    // per node that runs on what is owed: what it then owes
  std::vector<PartialSet> owed_;                      // per value, by what its op reduces or passes on here
  std::vector<absl::InlinedVector<int, 2>> readers_;  // per value; several if it leaves the program
};

}  // namespace

AxisSet Choice::sharded() const {
  AxisSet axes;
  for (const std::vector<Layout>* layouts : {&operands, &results})
    for (const Layout& layout : *layouts) axes = axes.Union(layout.ShardedAxes());
  return axes;
}

std::vector<std::optional<Choice>> ChooseCuts(const Graph& graph, const Topology& topology,
                                              const Replication& replication, bool share) {
  std::vector<std::optional<Choice>> choices;
  for (const Node& node : graph.nodes())
    choices.push_back(node.row->name == "relayout"
                          ? std::nullopt
                          : std::optional(LetterChooser(graph, node, topology, replication).Choose()));
  if (share) ShareRelayouts(graph, topology, replication, choices);
  ScatterDelayer(graph, topology, replication, choices).Run();
  return choices;
}

std::vector<Choice> AllChoices(const Graph& graph, const Node& node, const Topology& topology,
                               const Replication& replication) {
  return LetterChooser(graph, node, topology, replication).All();
}

}  // namespace meshwork
