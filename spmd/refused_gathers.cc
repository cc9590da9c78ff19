#include "meshwork/spmd/refused_gathers.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/control/loops.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/planner/cut.h"
#include "meshwork/planner/strided.h"
#include "meshwork/spmd/keep_weights.h"
#include "meshwork/spmd/plan_step.h"
#include "meshwork/spmd/propagate.h"

namespace meshwork {
namespace {

// Other layouts that are tried for one message.
constexpr int kMaxTrials = 64;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

PlannedCost Try(const Graph& global, const Topology& topology, int64_t budget) {
  Graph pinned = global;
  PropagateResult propagated = Propagate(pinned);
  KeepWeights(pinned, propagated, topology, budget);
  return PlanCost(pinned, propagated.graph, topology, budget);
}

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

class Explainer {
 public:
  Explainer(const Graph& global, const std::vector<RefusedGather>& refused, const Topology& topology,
            int64_t budget)
      : global_(global),
        refused_(refused),
        topology_(topology),
        budget_(budget),
        propagated_(Propagate(global)),
        gather_(*std::max_element(refused.begin(), refused.end(), [&](const auto& a, const auto& b) {
          return BytesOf(a.value) < BytesOf(b.value);
        })) {}

  std::string Text() {
    std::string text = fmt::format(
        "{}: {} would be gathered whole on every device, {} B, more than the {} B that are gathered unasked "
        "(CompileOptions::replication_budget).\n  {}.\n  {}\n  {}",
        Where(), WithLines(gather_.value), BytesOf(gather_.value), budget_, Why(), WayOut(), HowToAsk());
    if (refused_.size() > 1) text += fmt::format("\n  Others like it: {}.", refused_.size() - 1);
    return text;
  }

 private:
  int64_t BytesOf(ValueId id) const { return global_.value(id).type.bytes(); }
  const Layout& LayoutOf(ValueId id) const { return *propagated_.graph.value(id).layout; }
  const Node& Reader() const { return global_.nodes()[gather_.node]; }

  std::string Where() const {
    return gather_.node >= 0 ? global_.Describe(gather_.node)
                             : "update of %" + global_.value(gather_.variable).name;
  }

  // "%x", "the result of matmul (mlp.cc:12)".
  std::string NameOf(ValueId id) const {
    const ValueInfo& info = global_.value(id);
    if (!info.name.empty()) return "%" + info.name;
    return "the result of " + global_.Describe(info.node);
  }
  std::string LineOf(ValueId id) const { return global_.value(id).location.ToString(); }

  // The value whose pin decides how this one lies: itself, or what its axes come from; none if they come from
  // several, or from none.
  std::optional<ValueId> Root(ValueId id) const {
    std::optional<ValueId> root;
    for (int d = 0; d < LayoutOf(id).rank(); ++d) {
      if (AxesOf(LayoutOf(id), d).empty()) continue;
      const ValueId decides = DecidedBy({id, d});
      if (decides == kNoValue || (root.has_value() && *root != decides)) return std::nullopt;
      root = decides;
    }
    return root;
  }

  ValueId DecidedBy(Origin at) const {
    // Dims that a relayout matches may have been laid out for the relayout: a ring.
    for (size_t steps = 0; steps < global_.values().size(); ++steps) {
      const Origin& from = propagated_.origins[at.value][at.dim];
      if (from.value == kNoValue || from == at) return from.value;
      at = from;
    }
    return kNoValue;
  }

  // "%h f32[4,6] {x,_} (mlp.cc:12; it lies as %x {x,_}, mlp.cc:9)".
  std::string WithLines(ValueId id) const {
    const Layout& layout = id == gather_.value ? gather_.from : LayoutOf(id);
    std::string lines = global_.value(id).name.empty() ? "" : LineOf(id);
    if (const std::optional<ValueId> root = Root(id); root.has_value() && *root != id) {
      if (!lines.empty()) lines += "; ";
      lines += fmt::format("it lies as {} {}", NameOf(*root), LayoutOf(*root).ToString());
      if (!global_.value(*root).name.empty()) lines += ", " + LineOf(*root);
    }
    return fmt::format("{} {} {}{}", NameOf(id), global_.value(id).type.ToString(), layout.ToString(),
                       lines.empty() ? "" : fmt::format(" ({})", lines));
  }

  // ---- Why.

  std::string Why() const {
    if (gather_.node < 0)
      return fmt::format("The variable is kept as {}", LayoutOf(gather_.variable).ToString());
    const Rule rule = RuleOf(global_, Reader());
    for (size_t i = 0; i < Reader().operands.size(); ++i)
      if (Reader().operands[i] == gather_.value)
        if (std::string why = WhyOperand(rule, rule.operands[i]); !why.empty()) return why;
    for (size_t i = 0; i < Reader().results.size(); ++i)
      if (Reader().results[i] == gather_.value)
        if (std::string why = WhyResult(rule, rule.results[i]); !why.empty()) return why;
    return fmt::format("The layouts of {} leave no other way", rule.ToString());
  }

  std::string WhyOperand(const Rule& rule, const LetterList& letters) const {
    const Mesh& mesh = global_.mesh();
    for (int d = 0; d < gather_.from.rank(); ++d) {
      const AxisList axes = AxesOf(gather_.from, d);
      if (axes.empty()) continue;
      if (letters[d] == kNoLetter || rule.letters[letters[d]].whole)
        return fmt::format("It works along dim {}, which must be whole", d);
      const Letter& letter = rule.letters[letters[d]];
      if (gather_.from.IsStrided(d) && !MayBeStrided(*Reader().row, letter))
        return fmt::format("Dim {} is strided, and it works on blocks", d);
      if (letter.must_divide && letter.size % mesh.GroupSize(axes) != 0)
        return fmt::format("Along dim {} it needs blocks of equal size, and {} does not divide {}", d,
                           mesh.AxesToString(axes), letter.size);
      if (std::string clash = Clash(rule, letters[d], axes); !clash.empty())
        return fmt::format("Its dim {}, letter {} of {}, lies on {}, and {}", d, letter.name, rule.ToString(),
                           mesh.AxesToString(axes), clash);
    }
    return "";
  }

  // "so does letter m, dim 0 of %h f32[4,6] {x,_} (mlp.cc:12)".
  std::string Clash(const Rule& rule, int letter, const AxisList& axes) const {
    auto find = [&](const std::vector<LetterList>& lists, std::span<const ValueId> values) -> std::string {
      for (size_t i = 0; i < lists.size(); ++i) {
        if (values[i] == gather_.value) continue;
        for (int d = 0; d < static_cast<int>(lists[i].size()); ++d) {
          const AxisList other = AxesOf(LayoutOf(values[i]), d);
          const bool is_same = lists[i][d] == letter;
          if (other.empty() || (is_same ? other == axes : !AxisSet(other).Intersects(AxisSet(axes))))
            continue;
          const std::string_view dim_letter = lists[i][d] == kNoLetter
                                                  ? std::string_view("1")
                                                  : std::string_view(&rule.letters[lists[i][d]].name, 1);
          return fmt::format("letter {}, dim {} of {}, on {}", dim_letter, d, WithLines(values[i]),
                             global_.mesh().AxesToString(other));
        }
      }
      return "";
    };
    if (std::string clash = find(rule.operands, Reader().operands); !clash.empty()) return clash;
    return find(rule.results, Reader().results);
  }

  std::string WhyResult(const Rule& rule, const LetterList& letters) const {
    for (int d = 0; d < gather_.from.rank(); ++d) {
      const AxisList axes = AxesOf(gather_.from, d);
      if (axes.empty()) continue;
      const std::string_view letter = letters[d] == kNoLetter
                                          ? std::string_view("1")
                                          : std::string_view(&rule.letters[letters[d]].name, 1);
      return fmt::format("Letter {} of {} runs along {}, and the result is wanted as {}", letter,
                         rule.ToString(), global_.mesh().AxesToString(axes),
                         LayoutOf(gather_.value).ToString());
    }
    return "";
  }

  // ---- The way out.

  // What the user can change: the pin of a value, or how operands of the op lie, by relayouts before it.
  struct Change {
    bool is_pin;
    std::vector<std::pair<ValueId, Layout>> layouts;
    bool keeps_results = false;  // the op's results are pinned as they lie
  };

  std::vector<Change> Changes() const {
    std::vector<ValueId> tensors = {gather_.value};
    if (gather_.node >= 0) {
      tensors.insert(tensors.end(), Reader().operands.begin(), Reader().operands.end());
      tensors.insert(tensors.end(), Reader().results.begin(), Reader().results.end());
    } else {
      tensors.push_back(gather_.variable);
    }
    std::vector<Change> changes;
    if (gather_.node >= 0) AddRelayouts(changes);
    std::vector<ValueId> seen;
    for (ValueId id : tensors) {
      const std::optional<ValueId> root = Root(id);
      if (!root.has_value() || std::find(seen.begin(), seen.end(), *root) != seen.end()) continue;
      seen.push_back(*root);
      if (global_.value(*root).layout.has_value()) AddPins(*root, changes);
    }
    return changes;
  }

  // The value laid out along its own axes and those of what would be gathered. Not as it lies, nor whole
  // where it is not.
  void AddPins(ValueId id, std::vector<Change>& changes) const {
    const Layout& has = LayoutOf(id);
    const AxisSet axes = has.ShardedAxes().Union(gather_.from.ShardedAxes());
    for (Layout& layout : AllLayouts(global_.mesh(), has.rank(), axes.ToList()))
      if (layout != has && !layout.ShardedAxes().empty())
        changes.push_back({.is_pin = true, .layouts = {{id, std::move(layout)}}});
  }

  // The op run along each letter in turn by the axes of what would be gathered, unless that takes a gather
  // that is as bad.
  void AddRelayouts(std::vector<Change>& changes) const {
    const Rule rule = RuleOf(global_, Reader());
    const AxisList axes = gather_.from.ShardedAxes().ToList();
    for (size_t l = 0; l < rule.letters.size(); ++l) {
      const Letter& letter = rule.letters[l];
      if (letter.whole || (letter.must_divide && letter.size % global_.mesh().GroupSize(axes) != 0)) continue;
      std::vector<AxisList> cut(rule.letters.size());
      cut[l] = axes;
      AxisSet used{axes};
      for (size_t i = 0; i < Reader().operands.size(); ++i) {
        for (int d = 0; d < static_cast<int>(rule.operands[i].size()); ++d) {
          const AxisList has = AxesOf(LayoutOf(Reader().operands[i]), d);
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
    for (size_t i = 0; i < Reader().operands.size(); ++i) {
      const ValueId id = Reader().operands[i];
      std::vector<AxisList> dims;
      for (int letter : rule.operands[i]) dims.push_back(letter == kNoLetter ? AxisList() : cut[letter]);
      Layout layout(global_.mesh(), std::move(dims));
      if (layout == LayoutOf(id)) continue;
      // A carry is no operand of which the user could move a copy.
      if (LeavesCarry(Reader()) && i == 1) return;
      const bool gathers = layout.ShardedAxes().empty() && !LayoutOf(id).ShardedAxes().empty();
      if (gathers && BytesOf(id) > budget_) return;
      change.layouts.emplace_back(id, std::move(layout));
    }
    if (change.layouts.empty()) return;
    changes.push_back(change);
    const auto lies_open = [&](ValueId id) {
      return !global_.value(id).layout.has_value() && !LayoutOf(id).ShardedAxes().empty();
    };
    change.keeps_results = std::any_of(Reader().results.begin(), Reader().results.end(), lies_open);
    if (change.keeps_results) changes.push_back(std::move(change));
  }

  Graph With(const Change& change) const {
    if (change.is_pin) return WithPin(global_, change.layouts[0].first, change.layouts[0].second);
    if (!change.keeps_results) return WithRelayouts(global_, gather_.node, change.layouts);
    Graph pinned = global_;
    for (ValueId id : Reader().results) pinned = WithPin(pinned, id, LayoutOf(id));
    return WithRelayouts(pinned, gather_.node, change.layouts);
  }

  std::string TextOf(const Change& change) const {
    const auto& [id, layout] = change.layouts[0];
    if (change.is_pin) return fmt::format("lay {} out as {} ({})", NameOf(id), layout.ToString(), LineOf(id));
    std::string text;
    for (const auto& [operand, to] : change.layouts)
      text += fmt::format("{}{} to {}", text.empty() ? "relayout " : " and ", NameOf(operand), to.ToString());
    text += " before it";
    if (!change.keeps_results) return text;
    for (ValueId id : Reader().results)
      text += fmt::format(" and pin {} as {}", NameOf(id), LayoutOf(id).ToString());
    return text;
  }

  std::string WayOut() const {
    const Change* best = nullptr;
    int64_t best_wire = 0;
    std::vector<Change> changes = Changes();
    if (changes.size() > kMaxTrials) changes.erase(changes.begin() + kMaxTrials, changes.end());
    for (const Change& change : changes) {
      const PlannedCost cost = Try(With(change), topology_, budget_);
      if (cost.refused >= refused_.size() || (best != nullptr && cost.bytes >= best_wire)) continue;
      best = &change;
      best_wire = cost.bytes;
    }
    if (best == nullptr) return "No other layout of its tensors was found that avoids it.";
    const int64_t with_it = Try(global_, topology_, kNoLimit).bytes;
    return fmt::format("Cheapest without it: {}; {} B on the wire per device and step{}.", TextOf(*best),
                       best_wire,
                       best_wire == with_it ? ", as with it" : fmt::format(" instead of {}", with_it));
  }

  std::string HowToAsk() const {
    const bool is_variable =
        std::any_of(global_.arguments().begin(), global_.arguments().end(),
                    [&](const Argument& a) { return a.is_variable && a.value == gather_.value; });
    // As a text may say it behind the value's name or op.
    const ValueInfo& info = global_.value(gather_.value);
    std::string annotation = info.type.ToString();
    if (info.layout.has_value()) annotation += " " + LayoutPin{*info.layout, info.modes}.ToString();
    if (is_variable)
      return fmt::format(
          "If it is meant, say so: annotate {0} `{1} gather=on_use` (C++: Gathering::kOnUse), to gather it "
          "for each op that reads it, or `{1} gather=allowed` (C++: AllowGather).",
          NameOf(gather_.value), annotation);
    return fmt::format(
        "If it is meant, say so: annotate {} `{} gather=allowed` (C++: AllowGather), or relayout it to {} "
        "before it is read (C++: Relayout).",
        NameOf(gather_.value), annotation, Layout::Replicated(global_.mesh(), info.type.rank()).ToString());
  }

  const Graph& global_;
  const std::vector<RefusedGather>& refused_;
  const Topology& topology_;
  const int64_t budget_;
  const PropagateResult propagated_;
  const RefusedGather& gather_;
};

}  // namespace

absl::Status ReplicationError(const Graph& global, const std::vector<RefusedGather>& refused,
                              const Topology& topology, int64_t budget) {
  return absl::InvalidArgumentError(Explainer(global, refused, topology, budget).Text());
}

}  // namespace meshwork
