#include "meshwork/spmd/rewrite/optimizer_state.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "meshwork/ir/readers.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

// Finds weights with their state, by the ops that read them.
class Groups {
 public:
  explicit Groups(const Graph& graph)
      : graph_(graph),
        readers_(ReadersOf(graph)),
        variables_(graph.values().size()),
        is_output_(graph.values().size(), false),
        root_(graph.arguments().size()),
        sources_(graph.arguments().size()) {
    std::iota(root_.begin(), root_.end(), 0);
    for (const Node& node : graph.nodes())
      rules_.push_back(node.row->kind == OpKind::kCompute ? RuleOf(graph, node) : Rule());
    for (const VariableUpdate& update : graph.updates()) {
      variables_[update.value].push_back(update.argument);
      variables_[graph.arguments()[update.argument].value].push_back(update.argument);
    }
    for (const OutputInfo& output : graph.outputs()) is_output_[output.value] = true;
  }

  std::vector<WeightState> Find() && {
    std::vector<bool> is_state(graph_.arguments().size(), false);
    for (const VariableUpdate& update : graph_.updates())
      is_state[update.argument] = FollowState(update.argument);
    std::vector<bool> has_weight(root_.size(), false);
    for (const VariableUpdate& update : graph_.updates())
      if (!is_state[update.argument]) has_weight[Root(update.argument)] = true;
    for (const VariableUpdate& update : graph_.updates())
      if (is_state[update.argument]) JoinSource(update.argument, has_weight);
    std::map<int, WeightState> groups;  // by root; a group of several weights, or of none, is left out
    std::map<int, int> weights;
    for (const VariableUpdate& update : graph_.updates()) {
      WeightState& group = groups[Root(update.argument)];
      if (is_state[update.argument]) {
        group.state.push_back(update.argument);
      } else {
        group.weight = update.argument;
        ++weights[Root(update.argument)];
      }
    }
    std::vector<WeightState> found;
    for (auto& [root, group] : groups) {
      if (weights[root] != 1 || group.state.empty()) continue;
      std::sort(group.state.begin(), group.state.end());
      found.push_back(std::move(group));
    }
    return found;
  }

 private:
  const Shape& ShapeOf(int argument) const {
    return graph_.value(graph_.arguments()[argument].value).type.shape;
  }

  // Whether variable `argument` is state. If so, joins it with the variables whose new values it goes into. Does not
  // look at what these new values go into.
  bool FollowState(int argument) {
    const Shape& shape = ShapeOf(argument);
    if (shape.empty()) return false;
    std::vector<bool> reached(graph_.values().size(), false);
    std::vector<ValueId> next = {graph_.arguments()[argument].value};
    std::set<ValueId> looked;
    std::vector<int> joined;
    while (!next.empty()) {
      const ValueId id = next.back();
      next.pop_back();
      if (reached[id]) continue;
      reached[id] = true;
      const std::vector<int>& held = variables_[id];
      joined.insert(joined.end(), held.begin(), held.end());
      if (!held.empty() && std::find(held.begin(), held.end(), argument) == held.end()) continue;
      if (is_output_[id]) return false;
      for (const auto [n, i] : readers_[id]) {
        const Node& node = graph_.nodes()[n];
        if (!IsElementwise(node, rules_[n], i)) return false;
        for (ValueId operand : node.operands)
          if (graph_.value(operand).type.shape == shape) AddSources(operand, looked, sources_[argument]);
        next.insert(next.end(), node.results.begin(), node.results.end());
      }
    }
    for (int other : joined) root_[Root(other)] = Root(argument);
    return true;
  }

  // State that goes into no weight, such as an average, belongs to the weight that it is computed from, if that is
  // a single one.
  void JoinSource(int argument, const std::vector<bool>& has_weight) {
    if (has_weight[Root(argument)]) return;
    std::set<int> roots;
    for (int source : sources_[argument])
      if (has_weight[Root(source)]) roots.insert(Root(source));
    if (roots.size() == 1) root_[Root(argument)] = *roots.begin();
  }

  // Adds the variables from whose old or new values `id` is computed, element by element. Skips values that were
  // `looked` at before.
  void AddSources(ValueId id, std::set<ValueId>& looked, std::vector<int>& sources) const {
    std::vector<ValueId> next = {id};
    while (!next.empty()) {
      const ValueId source = next.back();
      next.pop_back();
      if (!looked.insert(source).second) continue;
      sources.insert(sources.end(), variables_[source].begin(), variables_[source].end());
      const int n = graph_.value(source).node;
      if (!variables_[source].empty() || n < 0) continue;
      for (size_t i = 0; i < graph_.nodes()[n].operands.size(); ++i)
        if (IsElementwise(graph_.nodes()[n], rules_[n], i)) next.push_back(graph_.nodes()[n].operands[i]);
    }
  }

  int Root(int argument) {
    while (root_[argument] != argument) argument = root_[argument] = root_[root_[argument]];
    return argument;
  }

  const Graph& graph_;
  std::vector<Rule> rules_;  // per node; empty unless it computes
  const Readers readers_;
  std::vector<std::vector<int>> variables_;  // per value: updated variables that hold it, before or after
  std::vector<bool> is_output_;              // per value
  std::vector<int> root_;                    // per argument: towards the one that stands for its group
  std::vector<std::vector<int>> sources_;    // per argument that is state: what is read with it
};

}  // namespace

bool IsElementwise(const Node& node, const Rule& rule, size_t i) {
  if (node.row->kind != OpKind::kCompute) return false;
  for (const LetterList& result : rule.results)
    if (result != rule.operands[i]) return false;
  return std::all_of(rule.operands[i].begin(), rule.operands[i].end(), [&](int l) {
    return l != kNoLetter && !rule.letters[l].whole && !rule.letters[l].must_divide;
  });
}

std::vector<WeightState> FindWeightStates(const Graph& graph) { return Groups(graph).Find(); }

}  // namespace meshwork
