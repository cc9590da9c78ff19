#include "meshwork/train/parameter_server/update_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

class Planner {
 public:
  Planner(const UpdateFacts& facts, const Partitioner& partitioner)
      : facts_(facts), graph_(facts.graph), partitioner_(partitioner), parent_(facts.kinds.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  absl::StatusOr<UpdatePlan> Run() {
    for (size_t a = 0; a < facts_.kinds.size(); ++a)
      if (IsKept(a)) JoinByRow(static_cast<int>(a));
    UpdatePlan plan;
    for (bool is_changed = true; is_changed;) {
      MESHWORK_ASSIGN_OR_RETURN(plan, Groups());
      MESHWORK_ASSIGN_OR_RETURN(is_changed, JoinWhole(plan));
    }
    for (VariableGroup& group : plan.groups)
      MESHWORK_RETURN_IF_ERROR(CutUpdates(facts_, RunHere(group), group));
    MESHWORK_RETURN_IF_ERROR(CutUpdates(facts_, facts_.is_by_row, plan.shared));
    return plan;
  }

 private:
  bool IsKept(size_t a) const { return facts_.kinds[a] == ArgumentKind::kRows; }
  int Find(int a) const {
    while (parent_[static_cast<size_t>(a)] != a) a = parent_[static_cast<size_t>(a)];
    return a;
  }
  bool Join(int a, int b) {
    a = Find(a), b = Find(b);
    parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
    return a != b;
  }

  // Calls visit(node, operand) for all operands of the nodes that `runs` names, backwards from a variable's update.
  void Walk(int a, const std::vector<bool>& runs,
            const std::function<void(size_t n, size_t o)>& visit) const {
    std::vector<ValueId> stack = {facts_.updates[static_cast<size_t>(a)]};
    std::vector<bool> seen(graph_.values().size(), false);
    while (!stack.empty()) {
      const ValueId value = stack.back();
      stack.pop_back();
      if (value == kNoValue || seen[static_cast<size_t>(value)]) continue;
      seen[static_cast<size_t>(value)] = true;
      const int n = graph_.value(value).node;
      if (n < 0 || facts_.is_shared[static_cast<size_t>(value)] || !runs[static_cast<size_t>(n)]) continue;
      const Node& node = graph_.nodes()[static_cast<size_t>(n)];
      for (size_t o = 0; o < ComputedFrom(node).size(); ++o) {
        visit(static_cast<size_t>(n), o);
        stack.push_back(node.operands[o]);
      }
    }
  }
  // The variable kept by rows if an operand is one, or -1.
  int KeptAt(size_t n, size_t o) const {
    const int a = facts_.argument_of[static_cast<size_t>(graph_.nodes()[n].operands[o])];
    return a >= 0 && IsKept(static_cast<size_t>(a)) ? a : -1;
  }

  // Joins a variable with those that its update reads by row. A scalar that all rows read does not join.
  void JoinByRow(int a) {
    const bool is_scalar = graph_.value(graph_.arguments()[static_cast<size_t>(a)].value).type.rank() == 0;
    Walk(a, facts_.is_by_row, [&](size_t n, size_t o) {
      const int read = KeptAt(n, o);
      if (read < 0 || (!is_scalar && !facts_.row_operands[n][o])) return;
      Join(a, read);
    });
  }

  absl::StatusOr<UpdatePlan> Groups() const {
    UpdatePlan plan;
    std::map<int, VariableGroup> groups;  // by the first variable
    for (size_t a = 0; a < facts_.kinds.size(); ++a) {
      const int i = static_cast<int>(a);
      if (facts_.kinds[a] == ArgumentKind::kShared) plan.shared.arguments.push_back(i);
      if (IsKept(a)) groups[Find(i)].arguments.push_back(i);
    }
    for (auto& [first, group] : groups) {
      MESHWORK_RETURN_IF_ERROR(Partition(group));
      plan.groups.push_back(std::move(group));
    }
    return plan;
  }

  absl::Status Partition(VariableGroup& group) const {
    group.lead = group.arguments[0];
    for (int a : group.arguments) {
      if (!graph_.arguments()[static_cast<size_t>(a)].is_trainable ||
          facts_.updates[static_cast<size_t>(a)] == kNoValue)
        continue;
      group.lead = a;
      break;
    }
    const ValueInfo& info = graph_.value(graph_.arguments()[static_cast<size_t>(group.lead)].value);
    if (info.type.rank() == 0 || info.type.shape[0] == 0 || partitioner_ == nullptr) return absl::OkStatus();
    // Variables that are computed of one another, but not by row, also share a group; they need not have as many rows.
    const bool is_even = std::all_of(group.arguments.begin(), group.arguments.end(), [&](int a) {
      const Shape& shape = graph_.value(graph_.arguments()[static_cast<size_t>(a)].value).type.shape;
      return !shape.empty() && shape[0] == info.type.shape[0];
    });
    if (!is_even) return absl::OkStatus();
    group.pieces = partitioner_(info.name, info.type.dtype, info.type.shape);
    if (group.pieces >= 1 && group.pieces <= info.type.shape[0]) return absl::OkStatus();
    return InvalidArgument("SplitTraining: the partitioner keeps {}, {}, in {}; give 1 to {}, the rows.",
                           QuotedVariable(graph_, group.lead), info.type.ToString(),
                           Count(group.pieces, "piece"), info.type.shape[0]);
  }

  // Whether this value depends on no input, and on no variables but the group's and shared ones.
  bool IsOfGroup(ValueId value, const VariableGroup& group, std::map<ValueId, bool>& known) const {
    const auto v = static_cast<size_t>(value);
    if (facts_.is_shared[v]) return true;
    if (facts_.from_input[v]) return false;
    if (facts_.argument_of[v] >= 0)
      return std::binary_search(group.arguments.begin(), group.arguments.end(), facts_.argument_of[v]);
    if (const auto found = known.find(value); found != known.end()) return found->second;
    const Node& node = graph_.nodes()[static_cast<size_t>(graph_.value(value).node)];
    const bool is = std::all_of(node.operands.begin(), node.operands.end(),
                                [&](ValueId id) { return IsOfGroup(id, group, known); });
    known[value] = is;
    return is;
  }

  std::vector<bool> RunHere(const VariableGroup& group) const {
    std::vector<bool> runs = facts_.is_by_row;
    if (group.pieces > 1) return runs;
    std::map<ValueId, bool> known;
    for (size_t n = 0; n < runs.size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (runs[n] || node.row->kind != OpKind::kCompute) continue;
      runs[n] =
          facts_.state[static_cast<size_t>(node.results[0])] >= 0 || IsOfGroup(node.results[0], group, known);
    }
    return runs;
  }

  // Joins two groups of one piece each if the update of one reads a variable of the other as a whole. Returns whether
  // it did.
  absl::StatusOr<bool> JoinWhole(const UpdatePlan& plan) {
    std::map<int, const VariableGroup*> group_of;
    for (const VariableGroup& group : plan.groups)
      for (int a : group.arguments) group_of[a] = &group;
    bool is_changed = false;
    absl::Status status;
    for (const VariableGroup& group : plan.groups) {
      if (group.pieces > 1) continue;
      const std::vector<bool> runs = RunHere(group);
      for (int a : group.arguments) {
        Walk(a, runs, [&](size_t n, size_t o) {
          const int read = KeptAt(n, o);
          if (read < 0 || facts_.is_by_row[n] || Find(read) == Find(a)) return;
          const VariableGroup& other = *group_of[read];
          if (other.pieces == 1) {
            is_changed |= Join(a, read);
          } else if (status.ok()) {
            status = InvalidArgument(
                "SplitTraining: the update of {} needs {} of \"{}\", which is kept in {} pieces, as a whole; keep it in one, "
                "by a partitioner that gives 1 for \"{}\".",
                QuotedVariable(graph_, a), graph_.Describe(static_cast<int>(n)), graph_.argument_name(read),
                other.pieces, graph_.argument_name(other.lead));
          }
        });
      }
    }
    MESHWORK_RETURN_IF_ERROR(status);
    return is_changed;
  }

  const UpdateFacts& facts_;
  const Graph& graph_;
  const Partitioner& partitioner_;
  std::vector<int> parent_;
};

}  // namespace

std::string QuotedVariable(const Graph& graph, int argument) {
  const ValueInfo& info = graph.value(graph.arguments()[static_cast<size_t>(argument)].value);
  const std::string where = info.location.ToString();
  return fmt::format("\"{}\"{}", info.name, where.empty() ? "" : fmt::format(" ({})", where));
}

absl::StatusOr<UpdatePlan> PlanUpdates(const UpdateFacts& facts, const Partitioner& partitioner) {
  return Planner(facts, partitioner).Run();
}

}  // namespace meshwork
