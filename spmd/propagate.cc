#include "spmd/propagate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/status.h"
#include "fmt/ranges.h"
#include "ops/row.h"

namespace meshwork {
namespace {

// What is known of one value: per dim its axes, or nothing yet.
using Knowledge = std::vector<std::optional<AxisList>>;

class Propagator {
 public:
  explicit Propagator(const Graph& graph) : graph_(graph), known_(graph.values().size()) {
    for (size_t i = 0; i < known_.size(); ++i) {
      const ValueInfo& info = graph.values()[i];
      known_[i].resize(info.type.shape.size());
      if (!info.layout.has_value()) continue;
      Lock(static_cast<ValueId>(i), {info.layout->WithoutTrivialAxes(), info.modes});
    }
    for (const Node& node : graph.nodes()) {
      rules_.push_back(RuleOf(graph, node));
      if (node.row->name != "relayout") continue;
      LockRelayout(node);
    }
  }

  PropagateResult Run() {
    FollowUpdates();
    for (const bool elementwise_only : {true, false}) {
      bool changed = true;
      while (changed) {
        changed = false;
        const int n = static_cast<int>(graph_.nodes().size());
        for (int i = 0; i < n; ++i) changed |= Visit(i, elementwise_only);
        for (int i = n; i-- > 0;) changed |= Visit(i, elementwise_only);
      }
    }
    MatchOperands();
    FindConflicts();
    PropagateResult result{graph_, std::move(decisions_), std::move(conflicts_)};
    for (size_t i = 0; i < known_.size(); ++i) {
      ValueInfo& info = result.graph.mutable_value(static_cast<ValueId>(i));
      info.layout = LayoutOf(static_cast<ValueId>(i));
      info.modes.clear();
    }
    return result;
  }

 private:
  struct Use {
    ValueId value;
    int dim;
  };

  void Lock(ValueId value, const LayoutPin& pin) {
    for (int d = 0; d < pin.layout.rank(); ++d) {
      if (pin.mode(d) != DimMode::kLocked) continue;
      if (pin.layout.IsStrided(d)) strided_[{value, d}] = pin.layout.Factors(d, 0);
      known_[value][d] = pin.layout.IsStrided(d) ? AxisList() : pin.layout.dim(d);
    }
  }

  // What the op asks for comes first; a pin of its result says what it leaves open, with axes that are free.
  void LockRelayout(const Node& node) {
    const LayoutPin& asked = node.attrs.Get<LayoutPin>("layout");
    const ValueId result = node.results[0];
    const ValueInfo& info = graph_.value(result);
    for (int d = 0; d < info.type.rank(); ++d) {
      known_[result][d].reset();
      strided_.erase({result, d});
    }
    Lock(result, {asked.layout.WithoutTrivialAxes(), asked.modes});
    if (!info.layout.has_value()) return;
    const LayoutPin pinned{info.layout->WithoutTrivialAxes(), info.modes};
    for (int d = 0; d < info.type.rank(); ++d) {
      if (asked.mode(d) == DimMode::kLocked || pinned.mode(d) != DimMode::kLocked ||
          pinned.layout.IsStrided(d))
        continue;
      if (!TakenBy(result).Intersects(AxisSet(pinned.layout.dim(d))))
        known_[result][d] = pinned.layout.dim(d);
    }
  }

  Layout LayoutOf(ValueId value) const {
    std::vector<FactorList> dims;
    for (int d = 0; d < static_cast<int>(known_[value].size()); ++d) {
      const auto strided = strided_.find({value, d});
      if (strided != strided_.end()) dims.push_back(strided->second);
      else dims.push_back({{1, known_[value][d].value_or(AxisList())}});
    }
    return Layout::Strided(graph_.mesh(), dims);
  }

  // A dim that a relayout keeps lies as the operand's does, as far as the other dims leave it the axes.
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
        const AxisSet taken = TakenBy(result);
        const auto strided = strided_.find({node.operands[0], d});
        if (strided != strided_.end() && !taken.Intersects(AxesOf(strided->second))) {
          const FactorList factors = strided->second;
          strided_[{result, d}] = factors;
          known_[result][d] = AxisList();
          continue;
        }
        AxisList kept;
        const AxisList have = known_[node.operands[0]][d].value_or(AxisList());
        for (int axis : have) {
          if (taken.Contains(axis)) break;
          kept.push_back(axis);
        }
        if (kept != have)
          conflicts_.push_back(fmt::format("{}: dim {} matches {}, of which another dim of {} takes a part",
                                           graph_.Describe(node.row->name, node.location), d,
                                           graph_.mesh().AxesToString(have), pin.ToString()));
        known_[result][d] = kept;
      }
    }
  }

  // Tensors of an op that shard a letter by different axes.
  void FindConflicts() {
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (node.row->name == "relayout") continue;
      const Rule& rule = rules_[n];
      for (size_t l = 0; l < rule.letters.size(); ++l) {
        absl::InlinedVector<Use, 4> uses;
        Collect(rule.operands, node.operands, static_cast<int>(l), uses);
        Collect(rule.results, node.results, static_cast<int>(l), uses);
        const Use* first = nullptr;
        for (const Use& use : uses) {
          if (AxesOf(use).empty()) continue;
          if (first == nullptr) first = &use;
          if (AxesOf(use) == AxesOf(*first)) continue;
          conflicts_.push_back(fmt::format("{}: letter {} lies on {} in {} and on {} in {}",
                                           graph_.Describe(node.row->name, node.location),
                                           rule.letters[l].name, graph_.mesh().AxesToString(AxesOf(*first)),
                                           NameOf(first->value), graph_.mesh().AxesToString(AxesOf(use)),
                                           NameOf(use.value)));
          break;
        }
      }
    }
  }

  AxisList AxesOf(const Use& use) const { return known_[use.value][use.dim].value_or(AxisList()); }

  std::string NameOf(ValueId id) const {
    const std::string& name = graph_.value(id).name;
    return name.empty() ? fmt::format("value {}", id) : "%" + name;
  }

  static AxisSet AxesOf(const FactorList& factors) {
    AxisSet axes;
    for (const Factor& factor : factors) axes = axes.Union(AxisSet(factor.axes));
    return axes;
  }

  AxisSet TakenBy(ValueId value) const {
    AxisSet taken;
    for (const std::optional<AxisList>& axes : known_[value])
      if (axes.has_value()) taken = taken.Union(AxisSet(*axes));
    for (int d = 0; d < static_cast<int>(known_[value].size()); ++d) {
      const auto strided = strided_.find({value, d});
      if (strided != strided_.end()) taken = taken.Union(AxesOf(strided->second));
    }
    return taken;
  }

  // New values of variables lie where the variables do.
  void FollowUpdates() {
    for (const VariableUpdate& update : graph_.updates()) {
      const ValueId variable = graph_.arguments()[update.argument].value;
      for (size_t d = 0; d < known_[variable].size(); ++d) {
        const std::optional<AxisList>& axes = known_[variable][d];
        if (axes.has_value() && !axes->empty())
          Offer({update.value, static_cast<int>(d)}, *axes,
                [&] { return "update of %" + graph_.value(variable).name; });
      }
    }
  }

  static bool IsElementwise(const Rule& rule) {
    for (const Letter& letter : rule.letters)
      if (letter.reduced || letter.whole || letter.must_divide) return false;
    return true;
  }

  bool Visit(int index, bool elementwise_only) {
    const Node& node = graph_.nodes()[index];
    const Rule& rule = rules_[index];
    if (elementwise_only && !IsElementwise(rule)) return false;
    bool changed = false;
    for (const Source& source : Sources(node, rule)) {
      const Letter& letter = rule.letters[source.letter];
      for (const Use& use : source.uses) {
        changed |= Offer(use, source.axes,
                         [&] { return fmt::format("letter {} of {}", letter.name, graph_.Describe(index)); });
      }
    }
    return changed;
  }

  // The letters of a node that some tensor shards: where the axes come from, and who carries the letter.
  struct Source {
    size_t letter;
    int64_t bytes;  // of the tensor
    AxisList axes;
    absl::InlinedVector<Use, 4> uses;
  };

  // Largest tensor first, so that of two letters that want one axis its letter gets it.
  std::vector<Source> Sources(const Node& node, const Rule& rule) const {
    std::vector<Source> sources;
    for (size_t l = 0; l < rule.letters.size(); ++l) {
      if (rule.letters[l].whole) continue;
      Source source{.letter = l};
      Collect(rule.operands, node.operands, static_cast<int>(l), source.uses);
      Collect(rule.results, node.results, static_cast<int>(l), source.uses);
      const Use* best = Largest(source.uses);
      if (best == nullptr) continue;
      source.bytes = graph_.value(best->value).type.bytes();
      source.axes = Usable(rule.letters[l], *known_[best->value][best->dim]);
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
      const std::optional<AxisList>& axes = known_[use.value][use.dim];
      if (!axes.has_value() || axes->empty()) continue;
      const int64_t bytes = graph_.value(use.value).type.bytes();
      if (bytes > best_bytes) {
        best = &use;
        best_bytes = bytes;
      }
    }
    return best;
  }

  // A prefix of `axes` that the letter can be cut by.
  AxisList Usable(const Letter& letter, const AxisList& axes) const {
    AxisList usable;
    int64_t shards = 1;
    for (int axis : axes) {
      shards *= graph_.mesh().axis(axis).size;
      if (letter.must_divide && letter.size % shards != 0) break;
      usable.push_back(axis);
    }
    return usable;
  }

  // Gives an undecided dim the axes that no other dim of the value has; true if it took some.
  template <typename Reason>
  bool Offer(const Use& use, const AxisList& axes, Reason&& reason) {
    std::optional<AxisList>& slot = known_[use.value][use.dim];
    if (slot.has_value()) return false;
    const AxisSet taken = TakenBy(use.value);
    AxisList free;
    for (int axis : axes) {
      if (taken.Contains(axis)) break;
      free.push_back(axis);
    }
    if (free.empty()) return false;
    slot = free;
    decisions_.push_back(fmt::format("{} dim {} = {}: {}", NameOf(use.value), use.dim,
                                     graph_.mesh().AxesToString(free), reason()));
    return true;
  }

  const Graph& graph_;
  std::vector<Knowledge> known_;
  std::vector<Rule> rules_;
  std::map<std::pair<ValueId, int>, FactorList> strided_;  // dims that `known_` has as whole
  std::vector<std::string> decisions_, conflicts_;
};

}  // namespace

PropagateResult Propagate(const Graph& graph) { return Propagator(graph).Run(); }

}  // namespace meshwork
