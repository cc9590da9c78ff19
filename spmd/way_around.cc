#include "meshwork/spmd/way_around.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/plan_step.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/work.h"
#include "meshwork/spmd/propagate.h"

namespace meshwork {
namespace {

// Other layouts that are tried for one message.
constexpr int kMaxTrials = 64;

constexpr int64_t kAnyBytes = std::numeric_limits<int64_t>::max();

// `global` with another pin of one value.
Graph WithPin(const Graph& global, ValueId value, const Layout& layout) {
  Graph changed = global;
  changed.mutable_value(value).layout = layout;
  changed.mutable_value(value).modes.clear();
  return changed;
}

// `global` with relayouts of operands of one op.
Graph WithRelayouts(const Graph& global, int node, const std::vector<std::pair<ValueId, Layout>>& operands) {
  Rewriter rewriter(global);
  for (int n = 0; n < static_cast<int>(global.nodes().size()); ++n) {
    std::vector<std::pair<ValueId, ValueId>> before;
    for (const auto& [operand, layout] : operands) {
      if (n != node) break;
      before.emplace_back(operand, rewriter.Map(operand));
      Graph& to = rewriter.to();
      const int added =
          to.TryAdd(GetOp("relayout"), {{before.back().second}}, {{"layout", LayoutPin{layout}}}, {}).value();
      rewriter.Set(operand, to.nodes()[added].results[0]);
    }
    rewriter.Copy(global.nodes()[n]);
    for (size_t i = before.size(); i-- > 0;) rewriter.Set(before[i].first, before[i].second);
  }
  return std::move(rewriter).Finish();
}

// Every way to lay a tensor of this rank out along these axes, each on one dim or on none.
std::vector<Layout> AllLayouts(const Mesh& mesh, int rank, const AxisList& axes) {
  std::vector<Layout> layouts;
  std::vector<int> at(axes.size(), 0);  // rank: on none
  while (true) {
    std::vector<AxisList> dims(static_cast<size_t>(rank));
    for (size_t i = 0; i < axes.size(); ++i)
      if (at[i] < rank) dims[at[i]].push_back(axes[i]);
    layouts.emplace_back(mesh, std::move(dims));
    size_t i = 0;
    while (i < at.size() && at[i] == rank) at[i++] = 0;
    if (i == at.size() || static_cast<int>(layouts.size()) > kMaxTrials) return layouts;
    ++at[i];
  }
}

class WayAround {
 public:
  WayAround(const GatherInProgram& at, int64_t num_refused, const Topology& topology, int64_t budget)
      : at_(at),
        num_refused_(num_refused),
        topology_(topology),
        budget_(budget),
        work_(kWorkOfCompile, at.global().nodes().size()) {}

  std::string Text() {
    const Change* best = nullptr;
    StepCost best_cost;
    std::vector<Change> changes = Changes();
    if (changes.size() > kMaxTrials) changes.erase(changes.begin() + kMaxTrials, changes.end());
    for (const Change& change : changes) {
      const StepCost cost = CostOf(With(change), budget_);
      if (cost.refused >= num_refused_ || (best != nullptr && !(cost < best_cost))) continue;
      best = &change;
      best_cost = cost;
    }
    if (best == nullptr) return "No other layout of its tensors was found that avoids it.";
    const int64_t with_it = CostOf(at_.global(), kAnyBytes).bytes;
    return fmt::format("Cheapest without it: {}; {} B on the wire per device and step{}.", TextOf(*best),
                       best_cost.bytes,
                       best_cost.bytes == with_it ? ", as with it" : fmt::format(" instead of {}", with_it));
  }

 private:
  // What the user can change: the pin of a value, or how operands of the op lie, by relayouts before it.
  struct Change {
    bool is_pin;
    std::vector<std::pair<ValueId, Layout>> layouts;
    bool keeps_results = false;  // the op's results are pinned as they lie
  };

  // What a step of the program costs, laid out as Compile does it.
  StepCost CostOf(const Graph& global, int64_t budget) {
    return PlanCost(global, Propagate(global).graph,
                    {.topology = topology_, .replication_budget = budget, .work = &work_});
  }

  std::vector<Change> Changes() const {
    std::vector<ValueId> tensors = {at_.gather().value};
    if (at_.gather().node >= 0) {
      tensors.insert(tensors.end(), at_.Reader().operands.begin(), at_.Reader().operands.end());
      tensors.insert(tensors.end(), at_.Reader().results.begin(), at_.Reader().results.end());
    } else {
      tensors.push_back(at_.gather().variable);
    }
    std::vector<Change> changes;
    if (at_.gather().node >= 0) AddRelayouts(changes);
    std::vector<ValueId> seen;
    for (ValueId id : tensors) {
      const std::optional<ValueId> root = at_.Root(id);
      if (!root.has_value() || std::find(seen.begin(), seen.end(), *root) != seen.end()) continue;
      seen.push_back(*root);
      if (at_.global().value(*root).layout.has_value()) AddPins(*root, changes);
    }
    return changes;
  }

  // Adds pins of the value along its own axes and those of the value that would be gathered; not its present layout,
  // and not the whole value.
  void AddPins(ValueId id, std::vector<Change>& changes) const {
    const Layout& has = at_.LayoutOf(id);
    const AxisSet axes = has.ShardedAxes().Union(at_.gather().from.ShardedAxes());
    for (Layout& layout : AllLayouts(at_.global().mesh(), has.rank(), axes.ToList()))
      if (layout != has && !layout.ShardedAxes().empty())
        changes.push_back({.is_pin = true, .layouts = {{id, std::move(layout)}}});
  }

  // Adds relayouts with which the op runs along each letter in turn by the axes of the value that would be gathered,
  // unless that takes another gather beyond the budget.
  void AddRelayouts(std::vector<Change>& changes) const {
    const Rule rule = RuleOf(at_.global(), at_.Reader());
    const AxisList axes = at_.gather().from.ShardedAxes().ToList();
    for (size_t l = 0; l < rule.letters.size(); ++l) {
      const Letter& letter = rule.letters[l];
      if (letter.whole || (letter.must_divide && letter.size % at_.global().mesh().GroupSize(axes) != 0))
        continue;
      std::vector<AxisList> cut(rule.letters.size());
      cut[l] = axes;
      AxisSet used{axes};
      for (size_t i = 0; i < at_.Reader().operands.size(); ++i) {
        for (int d = 0; d < static_cast<int>(rule.operands[i].size()); ++d) {
          const AxisList has = AxesOf(at_.LayoutOf(at_.Reader().operands[i]), d);
          const int other = rule.operands[i][d];
          if (other == kNoLetter || rule.letters[other].whole || !cut[other].empty() ||
              used.Intersects(AxisSet(has)))
            continue;
          cut[other] = has;
          used = used.Union(AxisSet(has));
        }
      }
      AddRelayoutsTo(rule, cut, changes);
    }
  }

  void AddRelayoutsTo(const Rule& rule, const std::vector<AxisList>& cut,
                      std::vector<Change>& changes) const {
    Change change{.is_pin = false};
    for (size_t i = 0; i < at_.Reader().operands.size(); ++i) {
      const ValueId id = at_.Reader().operands[i];
      std::vector<AxisList> dims;
      for (int letter : rule.operands[i]) dims.push_back(letter == kNoLetter ? AxisList() : cut[letter]);
      Layout layout(at_.global().mesh(), std::move(dims));
      if (layout == at_.LayoutOf(id)) continue;
      // The user cannot put a relayout before a carry.
      if (LeavesCarry(at_.Reader()) && i == 1) return;
      const bool gathers = layout.ShardedAxes().empty() && !at_.LayoutOf(id).ShardedAxes().empty();
      if (gathers && at_.BytesOf(id) > budget_) return;
      change.layouts.emplace_back(id, std::move(layout));
    }
    if (change.layouts.empty()) return;
    changes.push_back(change);
    const auto lies_open = [&](ValueId id) {
      return !at_.global().value(id).layout.has_value() && !at_.LayoutOf(id).ShardedAxes().empty();
    };
    change.keeps_results = std::any_of(at_.Reader().results.begin(), at_.Reader().results.end(), lies_open);
    if (change.keeps_results) changes.push_back(std::move(change));
  }

  Graph With(const Change& change) const {
    if (change.is_pin) return WithPin(at_.global(), change.layouts[0].first, change.layouts[0].second);
    if (!change.keeps_results) return WithRelayouts(at_.global(), at_.gather().node, change.layouts);
    Graph pinned = at_.global();
    for (ValueId id : at_.Reader().results) pinned = WithPin(pinned, id, at_.LayoutOf(id));
    return WithRelayouts(pinned, at_.gather().node, change.layouts);
  }

  std::string TextOf(const Change& change) const {
    const auto& [id, layout] = change.layouts[0];
    if (change.is_pin)
      return fmt::format("lay {} out as {} ({})", at_.NameOf(id), layout.ToString(), at_.LineOf(id));
    std::string text;
    for (const auto& [operand, to] : change.layouts)
      text +=
          fmt::format("{}{} to {}", text.empty() ? "relayout " : " and ", at_.NameOf(operand), to.ToString());
    text += " before it";
    if (!change.keeps_results) return text;
    for (ValueId id : at_.Reader().results)
      text += fmt::format(" and pin {} as {}", at_.NameOf(id), at_.LayoutOf(id).ToString());
    return text;
  }

  const GatherInProgram& at_;
  const int64_t num_refused_;
  const Topology& topology_;
  const int64_t budget_;
  SearchWork work_;  // of all trials
};

}  // namespace

std::string CheapestWayAround(const GatherInProgram& at, int64_t num_refused, const Topology& topology,
                              int64_t budget) {
  return WayAround(at, num_refused, topology, budget).Text();
}

}  // namespace meshwork
