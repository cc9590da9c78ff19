#include "meshwork/spmd/planner/choose_cuts.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/movement.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/reshape.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/planner/delay_scatters.h"
#include "meshwork/spmd/planner/fold_repeats.h"
#include "meshwork/spmd/planner/move_seconds.h"
#include "meshwork/spmd/planner/strided.h"

namespace meshwork {
namespace {

// Letters for which tensors offer many different axes have exponentially many combinations. Only the first so
// many are costed, the most sharded ones.
constexpr int kMaxCombinations = 4096;

// Chooses how one op's letters are cut.
class LetterChooser {
 public:
  LetterChooser(const Graph& graph, const Node& node, const Topology& topology,
                const Replication& replication)
      : graph_(graph),
        node_(node),
        topology_(topology),
        replication_(replication),
        shared_rule_(std::make_shared<const Rule>(RuleOf(graph, node))),
        rule_(*shared_rule_) {
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

  // A dim that the op needs whole may be cut by axes that cut nothing else of the op. All devices along these
  // axes would compute the same. So the axes are offered to the letters that they may cut; an all-to-all then
  // moves the cut.
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

  // Tries to run a reshape without letters, so that no element moves: on the operand as it lies, and to the
  // result as it is wanted.
  void TryUnmoved() {
    const ValueInfo &from = graph_.value(node_.operands[0]), &to = graph_.value(node_.results[0]);
    const LetterCuts whole(rule_.letters.size(), Whole());
    if (std::optional<Layout> result = Reshaped(*from.layout, from.type.shape, to.type.shape))
      Consider({shared_rule_, whole, {}, {*from.layout}, {*std::move(result)}});
    if (std::optional<Layout> operand = Reshaped(*to.layout, to.type.shape, from.type.shape))
      Consider({shared_rule_, whole, {}, {*std::move(operand)}, {*to.layout}});
  }

  Choice ChoiceOf(const LetterCuts& cuts) const {
    Choice choice{shared_rule_, cuts, ReducedBy(rule_, cuts), {}, {}};
    for (const LetterList& letters : rule_.operands)
      choice.operands.push_back(meshwork::LayoutOf(graph_.mesh(), letters, cuts));
    for (const LetterList& letters : rule_.results)
      choice.results.push_back(meshwork::LayoutOf(graph_.mesh(), letters, cuts));
    return choice;
  }

  // The costs of running the op by one choice.
  struct Costs {
    double seconds = 0;
    int64_t refused = 0;  // bytes that are gathered and must not be
    bool sends_operand = false;
    bool sends_unasked = false;  // an operand is moved that IsUnasked, or a refused gather of a result

    bool IsLessThan(const Costs& other) const {
      return seconds != other.seconds ? seconds < other.seconds : refused < other.refused;
    }
  };

  void Consider(const Choice& choice) {
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

  // Whether nobody asks for the move of this operand: it is a refused gather that the layouts do not imply, or
  // the operand leaves axes over which the op then sums, as the rows of a batch do if the weight is cut along k.
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
  const std::shared_ptr<const Rule> shared_rule_;
  const Rule& rule_;
  std::vector<absl::InlinedVector<Cut, 2>> offers_;
  double flops_ = 0;
  std::optional<Choice> best_;
  std::optional<Choice> in_place_;  // on the operands as they lie, gathering nothing that is refused
  std::optional<Choice> implied_;   // gathering what the layouts imply, and nothing else that is refused
  Costs best_costs_, in_place_costs_, implied_costs_;
  int tried_ = 0;
};

// Folds ops that are alike in all that LetterChooser looks at. Besides the op and its tensors, it looks at the ops from
// which an operand could be computed elsewhere; these are at most kMaxElsewhere ops away.
Fold AlikeForCuts(const Graph& graph, const Replication& replication) {
  constexpr size_t kFew = 64;
  if (graph.nodes().size() < kFew) return Unfolded(graph);
  std::vector<uint64_t> marks;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id)
    marks.push_back(replication.KindOf(id));
  return FoldAlike(graph, kMaxElsewhere, marks, {});
}

}  // namespace

AxisSet Choice::sharded() const {
  AxisSet axes;
  for (const auto* layouts : {&operands, &results})
    for (const Layout& layout : *layouts) axes = axes.Union(layout.ShardedAxes());
  return axes;
}

std::vector<std::optional<Choice>> ChooseCuts(const Graph& graph, const Topology& topology,
                                              const Replication& replication) {
  std::vector<std::optional<Choice>> choices;
  const Fold alike = AlikeForCuts(graph, replication);
  for (int n = 0; n < static_cast<int>(graph.nodes().size()); ++n) {
    const Node& node = graph.nodes()[n];
    const int first = alike.first[alike.class_of[n]];
    if (first < n) choices.push_back(choices[first]);
    else if (node.row->name == "relayout") choices.push_back(std::nullopt);
    else choices.push_back(LetterChooser(graph, node, topology, replication).Choose());
  }
  DelayScatters(graph, topology, replication, choices);
  return choices;
}

}  // namespace meshwork
