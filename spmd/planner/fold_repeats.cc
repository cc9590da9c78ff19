#include "meshwork/spmd/planner/fold_repeats.h"

#include <algorithm>
#include <numeric>

#include "meshwork/spmd/planner/numbering.h"

namespace meshwork {
namespace {

class Folder {
 public:
  Folder(const Graph& graph, std::span<const uint64_t> value_marks, std::span<const uint64_t> node_marks)
      : graph_(graph), value_marks_(value_marks), node_marks_(node_marks) {}

  Fold Run(int rounds) {
    NumberValues();
    NumberNodes();
    // Values made from constants alone differ if anything in their computation differs.
    value_colors_.resize(graph_.values().size());
    is_constant_.resize(graph_.values().size());
    for (size_t id = 0; id < value_colors_.size(); ++id)
      value_colors_[id] = MixedHash(1, Word(value_kinds_[id]));
    for (size_t n = 0; n < graph_.nodes().size(); ++n)
      FollowConstants(graph_.nodes()[n], Word(node_kinds_[n]));
    first_colors_ = value_colors_;
    for (int round = 0; round < rounds; ++round) Refine();
    return Classes();
  }

 private:
  static uint64_t Word(int number) { return static_cast<uint64_t>(number); }

  void NumberValues() {
    Numbering kinds;
    std::vector<ValueId> first;
    std::vector<int> argument_kinds(graph_.values().size(), 0);
    for (const Argument& argument : graph_.arguments())
      argument_kinds[argument.value] = argument.is_variable ? 2 : 1;
    for (const OutputInfo& output : graph_.outputs()) argument_kinds[output.value] |= 4;
    for (const VariableUpdate& update : graph_.updates()) argument_kinds[update.value] |= 8;
    const auto mark = [&](ValueId id) { return value_marks_.empty() ? 0 : value_marks_[id]; };
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values().size()); ++id) {
      const ValueInfo& info = graph_.value(id);
      uint64_t hash = MixedHash(mark(id), Word(argument_kinds[id]));
      hash = MixedHash(hash, static_cast<uint64_t>(info.type.dtype));
      for (int64_t size : info.type.shape) hash = MixedHash(hash, static_cast<uint64_t>(size));
      if (info.layout.has_value()) hash = MixedHash(hash, HashOf(*info.layout));
      const auto [kind, is_new] = kinds.NumberOf(hash, [&](int k) {
        const ValueInfo& other = graph_.value(first[k]);
        return mark(id) == mark(first[k]) && argument_kinds[id] == argument_kinds[first[k]] &&
               info.type == other.type && info.gather == other.gather && info.layout == other.layout &&
               info.modes == other.modes;
      });
      value_kinds_.push_back(kind);
      if (is_new) first.push_back(id);
    }
  }

  void NumberNodes() {
    Numbering kinds;
    std::vector<int> first;
    const auto mark = [&](int n) { return node_marks_.empty() ? 0 : node_marks_[n]; };
    for (int n = 0; n < static_cast<int>(graph_.nodes().size()); ++n) {
      const Node& node = graph_.nodes()[n];
      const uint64_t hash =
          MixedHash(MixedHash(reinterpret_cast<uintptr_t>(node.row), mark(n)), HashOf(node.attrs));
      const auto [kind, is_new] = kinds.NumberOf(hash, [&](int k) {
        const Node& other = graph_.nodes()[first[k]];
        return node.row == other.row && mark(n) == mark(first[k]) && node.regions.empty() &&
               other.regions.empty() && node.attrs == other.attrs;
      });
      node_kinds_.push_back(kind);
      if (is_new) first.push_back(n);
    }
  }

  void FollowConstants(const Node& node, uint64_t kind) {
    uint64_t color = MixedHash(2, kind);
    for (ValueId id : node.operands) {
      if (!is_constant_[id]) return;
      color = MixedHash(color, value_colors_[id]);
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      is_constant_[node.results[r]] = true;
      value_colors_[node.results[r]] = MixedHash(color, MixedHash(r, value_colors_[node.results[r]]));
    }
  }

  // Lets the color of each value depend on ops one step further away than before.
  void Refine() {
    std::vector<uint64_t> made(value_colors_.size(), 0), read(value_colors_.size(), 0);
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      uint64_t color = MixedHash(3, Word(node_kinds_[n]));
      for (ValueId id : node.operands) color = MixedHash(color, value_colors_[id]);
      for (ValueId id : node.results) color = MixedHash(color, value_colors_[id]);
      for (size_t i = 0; i < node.operands.size(); ++i) read[node.operands[i]] += MixedHash(color, 2 * i);
      for (size_t r = 0; r < node.results.size(); ++r) made[node.results[r]] = MixedHash(color, 2 * r + 1);
    }
    for (const VariableUpdate& update : graph_.updates()) {
      const ValueId variable = graph_.arguments()[update.argument].value;
      read[update.value] += MixedHash(4, value_colors_[variable]);
      read[variable] += MixedHash(5, value_colors_[update.value]);
    }
    for (size_t id = 0; id < value_colors_.size(); ++id)
      value_colors_[id] = MixedHash(first_colors_[id], MixedHash(made[id], read[id]));
  }

  Fold Classes() {
    Fold fold;
    const auto num_values = static_cast<ValueId>(graph_.values().size());
    Numbering values;
    std::vector<ValueId> first;
    for (ValueId id = 0; id < num_values; ++id) {
      const auto [k, is_new] = values.NumberOf(
          value_colors_[id], [&](int other) { return value_kinds_[first[other]] == value_kinds_[id]; });
      if (is_new) first.push_back(id);
      fold.value_of.push_back(first[k]);
    }
    Numbering nodes;
    const auto are_alike = [&](std::span<const ValueId> a, std::span<const ValueId> b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                        [&](ValueId x, ValueId y) { return fold.value_of[x] == fold.value_of[y]; });
    };
    for (int n = 0; n < static_cast<int>(graph_.nodes().size()); ++n) {
      const Node& node = graph_.nodes()[n];
      uint64_t hash = MixedHash(6, Word(node_kinds_[n]));
      for (ValueId id : node.operands) hash = MixedHash(hash, Word(fold.value_of[id]));
      for (ValueId id : node.results) hash = MixedHash(hash, Word(fold.value_of[id]));
      const auto [k, is_new] = nodes.NumberOf(hash, [&](int other) {
        const Node& alike = graph_.nodes()[fold.first[other]];
        return node_kinds_[n] == node_kinds_[fold.first[other]] && are_alike(node.operands, alike.operands) &&
               are_alike(node.results, alike.results);
      });
      if (is_new) fold.first.push_back(n);
      fold.class_of.push_back(k);
    }
    return fold;
  }

  const Graph& graph_;
  const std::span<const uint64_t> value_marks_, node_marks_;
  std::vector<int> value_kinds_, node_kinds_;
  std::vector<uint64_t> first_colors_, value_colors_;
  std::vector<bool> is_constant_;  // per value
};

}  // namespace

Fold FoldAlike(const Graph& graph, int rounds, std::span<const uint64_t> value_marks,
               std::span<const uint64_t> node_marks) {
  return Folder(graph, value_marks, node_marks).Run(rounds);
}

Fold Unfolded(const Graph& graph) {
  Fold fold;
  fold.value_of.resize(graph.values().size());
  std::iota(fold.value_of.begin(), fold.value_of.end(), 0);
  fold.class_of.resize(graph.nodes().size());
  std::iota(fold.class_of.begin(), fold.class_of.end(), 0);
  fold.first = fold.class_of;
  return fold;
}

FoldedNodes::FoldedNodes(const Graph& graph, const Fold& fold) {
  for (int n : fold.first) {
    const Node& node = graph.nodes()[n];
    if (!fold.folds()) {
      nodes_.push_back(&node);
      continue;
    }
    Node& copy = copies_.emplace_back(Node{.row = node.row, .attrs = node.attrs, .regions = node.regions});
    for (ValueId id : node.operands) copy.operands.push_back(fold.value_of[id]);
    for (ValueId id : node.results) copy.results.push_back(fold.value_of[id]);
    nodes_.push_back(&copy);
  }
}

}  // namespace meshwork
