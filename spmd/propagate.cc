#include "meshwork/spmd/propagate.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/reshape.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/decisions.h"
#include "meshwork/spmd/planner/kept_values.h"
#include "meshwork/spmd/planner/numbering.h"
#include "meshwork/spmd/planner/strided.h"

namespace meshwork {
namespace {

Cut Plain(AxisList axes) { return {{1, std::move(axes)}}; }
bool IsPlain(const Cut& cut) { return cut.size() == 1; }
bool IsWhole(const Cut& cut) { return cut == Whole(); }

// The cuts of one value that are known, per dim; nothing if a dim's cut is not known yet.
using Knowledge = std::vector<std::optional<Cut>>;

class Propagator {
 public:
  explicit Propagator(const Graph& graph)
      : graph_(graph),
        known_(graph.values().size()),
        origins_(graph.values().size()),
        changed_(graph.values().size(), 1),
        visited_(graph.nodes().size(), 0) {
    for (size_t i = 0; i < known_.size(); ++i) {
      const ValueInfo& info = graph.values()[i];
      known_[i].resize(info.type.shape.size());
      origins_[i].resize(info.type.shape.size());
      if (!info.layout.has_value()) continue;
      Lock(static_cast<ValueId>(i), {info.layout->WithoutTrivialAxes(), info.modes});
    }
    const std::vector<bool> kept = KeptValues(graph);
    for (const Node& node : graph.nodes()) {
      rule_of_.push_back(RuleNumberOf(node));
      is_use_.push_back(IsUse(node, kept));
      if (node.row->name != "relayout") continue;
      LockRelayout(node);
    }
  }

  PropagateResult Run() {
    FollowUpdates();
    for (const Ops ops : {Ops::kOfOneSize, Ops::kElementwise, Ops::kAll}) Spread(ops);
    KeepUses();
    MatchOperands();
    FindConflicts();
    PropagateResult result{graph_, std::move(decisions_), std::move(conflicts_), std::move(origins_)};
    for (size_t i = 0; i < known_.size(); ++i) {
      ValueInfo& info = result.graph.mutable_value(static_cast<ValueId>(i));
      info.layout = LayoutOf(static_cast<ValueId>(i));
      info.modes.clear();
    }
    AgreeAtMarks(result.graph);
    return result;
  }

 private:
  struct Use {
    ValueId value;
    int dim;
  };

  // The ops that layouts spread along. Ops that make a large tensor from a small one come late: the large tensor
  // gets the layout that other ops want, because the small one is cheap to move.
  enum class Ops { kOfOneSize, kElementwise, kAll };

  // Ops that are alike, such as those of repeated layers, share one rule.
  int RuleNumberOf(const Node& node) {
    uint64_t hash = MixedHash(reinterpret_cast<uintptr_t>(node.row), HashOf(node.attrs));
    for (ValueId id : node.operands)
      for (int64_t size : graph_.value(id).type.shape) hash = MixedHash(hash, static_cast<uint64_t>(size));
    const auto have_types = [&](std::span<const ValueId> a, std::span<const ValueId> b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                        [&](ValueId x, ValueId y) { return graph_.value(x).type == graph_.value(y).type; });
    };
    const auto [number, is_new] = rule_numbers_.NumberOf(hash, [&](int k) {
      const Node& other = *first_of_rule_[k];
      return node.row == other.row && node.attrs == other.attrs &&
             have_types(node.operands, other.operands) && have_types(node.results, other.results);
    });
    if (is_new) {
      rules_.push_back(RuleOf(graph_, node));
      first_of_rule_.push_back(&node);
    }
    return number;
  }

  void Spread(Ops ops) {
    std::fill(visited_.begin(), visited_.end(), 0);
    bool changed = true;
    while (changed) {
      changed = false;
      const int n = static_cast<int>(graph_.nodes().size());
      for (int i = 0; i < n; ++i) changed |= Visit(i, ops);
      for (int i = n; i-- > 0;) changed |= Visit(i, ops);
    }
  }

  // Dims of a use that are still open when all else is settled are cut as the kept value is, except by axes that
  // cut another tensor of the op.
  void KeepUses() {
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& reader = graph_.nodes()[n];
      for (ValueId id : reader.operands) {
        const int definer = graph_.value(id).node;
        if (definer >= 0 && is_use_[definer] && KeepUse(id, reader)) Spread(Ops::kAll);
      }
    }
  }

  bool KeepUse(ValueId use, const Node& reader) {
    AxisSet taken;
    for (ValueId id : reader.operands)
      if (id != use) taken = taken.Union(TakenBy(id));
    for (ValueId id : reader.results) taken = taken.Union(TakenBy(id));
    const ValueId kept = graph_.nodes()[graph_.value(use).node].operands[0];
    bool changed = false;
    for (int d = 0; d < graph_.value(use).type.rank(); ++d)
      changed |= Offer({use, d}, Free(CutOf({kept, d}), taken), {kept, d},
                       [&] { return "kept so, " + NameOf(kept); });
    return changed;
  }

  void Lock(ValueId value, const LayoutPin& pin) {
    for (int d = 0; d < pin.layout.rank(); ++d) {
      if (pin.mode(d) != DimMode::kLocked) continue;
      known_[value][d] = pin.layout.Factors(d, 1);
      origins_[value][d] = {value, d};
    }
  }

  // The layout that the op asks for comes first. A pin of its result fixes dims that the op leaves open, if their
  // axes are free.
  void LockRelayout(const Node& node) {
    const LayoutPin& asked = node.attrs.Get<LayoutPin>("layout");
    const ValueId result = node.results[0];
    const ValueInfo& info = graph_.value(result);
    for (int d = 0; d < info.type.rank(); ++d) {
      known_[result][d].reset();
      origins_[result][d] = {};
    }
    Lock(result, {asked.layout.WithoutTrivialAxes(), asked.modes});
    if (!info.layout.has_value()) return;
    const LayoutPin pinned{info.layout->WithoutTrivialAxes(), info.modes};
    for (int d = 0; d < info.type.rank(); ++d) {
      if (asked.mode(d) == DimMode::kLocked || pinned.mode(d) != DimMode::kLocked) continue;
      Cut cut = pinned.layout.Factors(d, 1);
      if (TakenBy(result).Intersects(meshwork::AxesOf(cut))) continue;
      known_[result][d] = std::move(cut);
      origins_[result][d] = {result, d};
    }
  }

  Layout LayoutOf(ValueId value) const {
    std::vector<FactorList> dims;
    dims.reserve(known_[value].size());
    for (const std::optional<Cut>& cut : known_[value]) dims.push_back(cut.value_or(Whole()));
    return Layout::Strided(graph_.mesh(), dims);
  }

  // A MATCH dim of a relayout is cut as the operand's dim is, by the axes that the other dims leave free.
  void MatchOperands() {
    for (const Node& node : graph_.nodes()) {
      if (node.row->name != "relayout") continue;
      const LayoutPin& pin = node.attrs.Get<LayoutPin>("layout");
      const ValueId result = node.results[0];
      const int modes = static_cast<int>(pin.modes.size());
      for (int d = 0; d < modes; ++d)
        if (pin.modes[d] == DimMode::kMatch) known_[result][d].reset();
      for (int d = 0; d < modes; ++d) {
        if (pin.modes[d] != DimMode::kMatch) continue;
        origins_[result][d] = {node.operands[0], d};
        const Cut have = known_[node.operands[0]][d].value_or(Whole());
        const Cut kept = Free(have, TakenBy(result));
        if (kept != have)
          conflicts_.push_back(fmt::format("{}: dim {} matches {}, of which another dim of {} takes a part",
                                           graph_.Describe(node.row->name, node.location), d, ToString(have),
                                           pin.ToString()));
        known_[result][d] = kept;
      }
    }
  }

  // Tensors of an op that shard a letter by different axes.
  void FindConflicts() {
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (node.row->name == "relayout" || MovesNothing(node)) continue;
      const Rule& rule = rules_[rule_of_[n]];
      for (size_t l = 0; l < rule.letters.size(); ++l) {
        absl::InlinedVector<Use, 4> uses;
        Collect(rule.operands, node.operands, static_cast<int>(l), uses);
        Collect(rule.results, node.results, static_cast<int>(l), uses);
        const Use* first = nullptr;
        for (const Use& use : uses) {
          if (IsWhole(CutOf(use))) continue;
          if (first == nullptr) first = &use;
          if (CutOf(use) == CutOf(*first)) continue;
          conflicts_.push_back(fmt::format("{}: letter {} lies on {} in {} and on {} in {}",
                                           graph_.Describe(node.row->name, node.location),
                                           rule.letters[l].name, ToString(CutOf(*first)),
                                           NameOf(first->value), ToString(CutOf(use)), NameOf(use.value)));
          break;
        }
      }
    }
  }

  // Whether a reshape moves no element.
  bool MovesNothing(const Node& node) const {
    if (node.row->name != "reshape") return false;
    const ValueId from = node.operands[0], to = node.results[0];
    return Reshaped(LayoutOf(from), graph_.value(from).type.shape, graph_.value(to).type.shape) ==
           LayoutOf(to);
  }

  const Cut& CutOf(const Use& use) const {
    const std::optional<Cut>& cut = known_[use.value][use.dim];
    return cut.has_value() ? *cut : Whole();
  }

  // "(x,y)", "8@x*8".
  std::string ToString(const Cut& cut) const {
    if (IsPlain(cut)) return graph_.mesh().AxesToString(cut[0].axes);
    const std::string layout = Layout::Strided(graph_.mesh(), {cut}).ToString();
    return layout.substr(1, layout.size() - 2);
  }

  std::string NameOf(ValueId id) const { return meshwork::NameOf(graph_, id); }

  AxisSet TakenBy(ValueId value) const {
    AxisSet taken;
    for (const std::optional<Cut>& cut : known_[value])
      if (cut.has_value()) taken = taken.Union(AxesOf(*cut));
    return taken;
  }

  // Lays new values of variables out like the variables.
  void FollowUpdates() {
    for (const VariableUpdate& update : graph_.updates()) {
      const ValueId variable = graph_.arguments()[update.argument].value;
      for (size_t d = 0; d < known_[variable].size(); ++d) {
        const std::optional<Cut>& cut = known_[variable][d];
        if (cut.has_value())
          Offer({update.value, static_cast<int>(d)}, *cut, {variable, static_cast<int>(d)},
                [&] { return "update of %" + graph_.value(variable).name; });
      }
    }
  }

  static bool IsElementwise(const Rule& rule) {
    for (const Letter& letter : rule.letters)
      if (letter.reduced || letter.whole || letter.must_divide) return false;
    return true;
  }

  bool Grows(const Node& node) const {
    int64_t most = 0;
    for (ValueId id : node.operands) most = std::max(most, graph_.value(id).type.num_elements());
    return graph_.value(node.results[0]).type.num_elements() > most;
  }

  bool Visit(int index, Ops ops) {
    const Node& node = graph_.nodes()[index];
    const Rule& rule = rules_[rule_of_[index]];
    if (is_use_[index] || (ops != Ops::kAll && !IsElementwise(rule)) ||
        (ops == Ops::kOfOneSize && Grows(node)) || !HasNews(index))
      return false;
    visited_[index] = ++clock_;
    bool changed = node.row->name == "reshape" && VisitReshape(index);
    for (const Source& source : Sources(node, rule)) {
      const Letter& letter = rule.letters[source.letter];
      for (const Use& use : source.uses) {
        changed |= Offer(use, source.cut, source.origin,
                         [&] { return fmt::format("letter {} of {}", letter.name, graph_.Describe(index)); });
      }
    }
    return changed;
  }

  // Whether more is known of the op's tensors than when it was last visited.
  bool HasNews(int index) const {
    const Node& node = graph_.nodes()[index];
    const auto is_new = [&](ValueId id) { return changed_[id] > visited_[index]; };
    return std::any_of(node.operands.begin(), node.operands.end(), is_new) ||
           std::any_of(node.results.begin(), node.results.end(), is_new);
  }

  // Cuts dims that a reshape merges or splits so that no element moves, if they are all open.
  bool VisitReshape(int index) {
    const Node& node = graph_.nodes()[index];
    const ValueId operand = node.operands[0], result = node.results[0];
    const Shape &from = graph_.value(operand).type.shape, &to = graph_.value(result).type.shape;
    if (NumElements(from) == 0) return false;
    bool changed = false;
    for (const ReshapeGroup& group : ReshapeGroups(from, to)) {
      if (group.is_single()) continue;  // its letter says it
      changed |= Follow(operand, group.from, group.from_end, result, group.to, group.to_end, index);
      changed |= Follow(result, group.to, group.to_end, operand, group.from, group.from_end, index);
    }
    return changed;
  }

  // Dims [to_begin, to_end) of `to` hold the elements of dims [begin, end) of `from`.
  bool Follow(ValueId from, int begin, int end, ValueId to, int to_begin, int to_end, int index) {
    for (int d = to_begin; d < to_end; ++d)
      if (known_[to][d].has_value()) return false;
    FactorList factors;
    for (int d = begin; d < end; ++d) {
      const Cut& cut = CutOf({from, d});
      factors.insert(factors.end(), cut.begin(), cut.end());
      if (IsPlain(cut)) factors.back().size = graph_.value(from).type.shape[d];
    }
    if (AxesOf(factors).Intersects(TakenBy(to))) return false;
    const Shape& shape = graph_.value(to).type.shape;
    const auto dims = ReshapeFactors(
        graph_.mesh(), factors, std::span(shape.begin() + to_begin, static_cast<size_t>(to_end - to_begin)));
    if (!dims.has_value()) return false;
    const Layout layout = Layout::Strided(graph_.mesh(), *dims);
    Origin origin{from, begin};
    while (IsWhole(CutOf({from, origin.dim})) && origin.dim + 1 < end) ++origin.dim;
    bool changed = false;
    for (int d = to_begin; d < to_end; ++d)
      changed |=
          Offer({to, d}, layout.Factors(d - to_begin, 1), origin, [&] { return graph_.Describe(index); });
    return changed;
  }

  // A letter of a node that some tensor shards, and that another tensor still may: where its axes come from, and the
  // dims that have the letter.
  struct Source {
    size_t letter;
    int64_t bytes;  // of the tensor
    Cut cut;
    Origin origin;
    absl::InlinedVector<Use, 4> uses;
  };

  // Largest tensor first, so that of two letters that want one axis its letter gets it.
  std::vector<Source> Sources(const Node& node, const Rule& rule) const {
    std::vector<Source> sources;
    sources.reserve(rule.letters.size());
    for (size_t l = 0; l < rule.letters.size(); ++l) {
      if (rule.letters[l].whole && !rule.letters[l].carried) continue;
      Source source{.letter = l};
      Collect(rule.operands, node.operands, static_cast<int>(l), source.uses);
      Collect(rule.results, node.results, static_cast<int>(l), source.uses);
      const Use* best = Largest(source.uses);
      const auto is_open = [&](const Use& use) { return !known_[use.value][use.dim].has_value(); };
      if (best == nullptr || std::none_of(source.uses.begin(), source.uses.end(), is_open)) continue;
      source.bytes = graph_.value(best->value).type.bytes();
      source.origin = {best->value, best->dim};
      source.cut = Usable(*node.row, rule.letters[l], CutOf(*best));
      sources.push_back(std::move(source));
    }
    std::stable_sort(sources.begin(), sources.end(),
                     [](const Source& a, const Source& b) { return a.bytes > b.bytes; });
    return sources;
  }

  static void Collect(const std::vector<LetterList>& lists, std::span<const ValueId> values, int letter,
                      absl::InlinedVector<Use, 4>& uses) {
    for (size_t i = 0; i < lists.size(); ++i)
      for (size_t d = 0; d < lists[i].size(); ++d)
        if (lists[i][d] == letter) uses.push_back({values[i], static_cast<int>(d)});
  }

  // The largest tensor that has axes along this letter.
  const Use* Largest(const absl::InlinedVector<Use, 4>& uses) const {
    const Use* best = nullptr;
    int64_t best_bytes = -1;
    for (const Use& use : uses) {
      if (IsWhole(CutOf(use))) continue;
      const int64_t bytes = graph_.value(use.value).type.bytes();
      if (bytes > best_bytes) {
        best = &use;
        best_bytes = bytes;
      }
    }
    return best;
  }

  // The cut, or a prefix of its axes, by which the letter can be cut.
  Cut Usable(const OpRow& row, const Letter& letter, const Cut& cut) const {
    if (!IsPlain(cut)) return MayBeStrided(row, letter) ? cut : Whole();
    AxisList usable;
    int64_t shards = 1;
    for (int axis : cut[0].axes) {
      shards *= graph_.mesh().axis(axis).size;
      if (letter.must_divide && letter.size % shards != 0) break;
      usable.push_back(axis);
    }
    return Plain(std::move(usable));
  }

  // The part of a cut without axes that are taken: the leading free axes of a plain cut, all or nothing of a
  // strided one.
  static Cut Free(const Cut& cut, AxisSet taken) {
    if (!IsPlain(cut)) return AxesOf(cut).Intersects(taken) ? Whole() : cut;
    AxisList free;
    for (int axis : cut[0].axes) {
      if (taken.Contains(axis)) break;
      free.push_back(axis);
    }
    return Plain(std::move(free));
  }

  // Cuts an undecided dim by the axes that no other dim of the value has; true if it took some.
  template <typename Reason>
  bool Offer(const Use& use, const Cut& cut, const Origin& origin, Reason&& reason) {
    std::optional<Cut>& slot = known_[use.value][use.dim];
    if (slot.has_value()) return false;
    Cut free = Free(cut, TakenBy(use.value));
    if (IsWhole(free)) return false;
    decisions_.push_back(
        fmt::format("{} dim {} = {}: {}", NameOf(use.value), use.dim, ToString(free), reason()));
    slot = std::move(free);
    origins_[use.value][use.dim] = origin;
    changed_[use.value] = ++clock_;
    return true;
  }

  const Graph& graph_;
  std::vector<Knowledge> known_;
  std::vector<std::vector<Origin>> origins_;
  Numbering rule_numbers_;
  std::vector<Rule> rules_;                 // of ops that are alike, one
  std::vector<const Node*> first_of_rule_;  // per rule
  std::vector<int> rule_of_;                // per node
  std::vector<bool> is_use_;                // per node
  // When something was last learned of a value, and when a node was last visited, by a clock of such events.
  std::vector<int64_t> changed_, visited_;
  int64_t clock_ = 1;
  std::vector<std::string> decisions_, conflicts_;
};

}  // namespace

PropagateResult Propagate(const Graph& graph) { return Propagator(graph).Run(); }

}  // namespace meshwork
