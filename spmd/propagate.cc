#include "spmd/propagate.h"

#include <algorithm>
#include <optional>

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
      const Layout layout = info.layout->WithoutTrivialAxes();
      for (int d = 0; d < layout.rank(); ++d) known_[i][d] = layout.dim(d);
    }
    for (const Node& node : graph.nodes()) {
      rules_.push_back(RuleOf(graph, node));
      if (node.row->name != "relayout") continue;
      const Layout layout = node.attrs.Get<Layout>("layout").WithoutTrivialAxes();
      for (int d = 0; d < layout.rank(); ++d) known_[node.results[0]][d] = layout.dim(d);
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
    PropagateResult result{graph_, std::move(decisions_)};
    for (size_t i = 0; i < known_.size(); ++i) {
      std::vector<AxisList> dims;
      for (const std::optional<AxisList>& axes : known_[i]) dims.push_back(axes.value_or(AxisList()));
      result.graph.mutable_value(static_cast<ValueId>(i)).layout = Layout(graph_.mesh(), std::move(dims));
    }
    return result;
  }

 private:
  struct Use {
    ValueId value;
    int dim;
  };

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
    AxisSet taken;
    for (const std::optional<AxisList>& other : known_[use.value])
      if (other.has_value()) taken = taken.Union(AxisSet(*other));
    AxisList free;
    for (int axis : axes) {
      if (taken.Contains(axis)) break;
      free.push_back(axis);
    }
    if (free.empty()) return false;
    slot = free;
    const std::string& name = graph_.value(use.value).name;
    decisions_.push_back(fmt::format("{} dim {} = {}: {}",
                                     name.empty() ? fmt::format("value {}", use.value) : "%" + name, use.dim,
                                     graph_.mesh().AxesToString(free), reason()));
    return true;
  }

  const Graph& graph_;
  std::vector<Knowledge> known_;
  std::vector<Rule> rules_;
  std::vector<std::string> decisions_;
};

}  // namespace

PropagateResult Propagate(const Graph& graph) { return Propagator(graph).Run(); }

}  // namespace meshwork
