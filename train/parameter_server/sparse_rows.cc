#include "meshwork/train/parameter_server/sparse_rows.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "meshwork/ir/row.h"
#include "meshwork/train/fit/output_means.h"

namespace meshwork {
namespace {

// Ops by row that make a row of zeros of rows of zeros. Add and sub do, if all operands have the rows.
constexpr std::string_view kKeepZeros[] = {"mul",  "div",  "neg",     "abs",      "square",
                                           "sqrt", "cast", "convert", "relayout", "stop_gradient"};

class TableFinder {
 public:
  TableFinder(const UpdateFacts& facts, const UpdatePlan& plan, const std::vector<bool>& live)
      : facts_(facts), graph_(facts.graph), plan_(plan), live_(live), varies_(graph_.values().size(), false) {
    for (const Argument& argument : graph_.arguments())
      varies_[static_cast<size_t>(argument.value)] = argument.is_variable;
    for (const Node& node : graph_.nodes()) {
      const bool varies = std::any_of(node.operands.begin(), node.operands.end(),
                                      [&](ValueId id) { return varies_[static_cast<size_t>(id)]; });
      for (ValueId id : node.results) varies_[static_cast<size_t>(id)] = varies;
    }
  }

  std::optional<SparseTable> Find(size_t g) const {
    const VariableGroup& group = plan_.groups[g];
    SparseTable table{.argument = group.lead, .group = g};
    const Type& type = TypeOf(ValueOf(group.lead));
    if (type.rank() != 2 || !IsUpdatedByRow(group, table.pushed) || TypeOf(table.pushed) != type) return {};
    if (!FindIds(table) || !FindGradients(table)) return {};
    for (ValueId id : table.ids) table.capacity += TypeOf(id).num_elements();
    // The number of rows must not be that of the examples of a batch, so that a short batch does not change it
    // (ops/control/rebatch.h).
    if (table.capacity == LeadingInputOf(graph_).rows) ++table.capacity;
    if (table.capacity < 1 || table.capacity >= type.shape[0]) return {};
    return table;
  }

 private:
  const Type& TypeOf(ValueId value) const { return graph_.value(value).type; }
  ValueId ValueOf(int a) const { return graph_.arguments()[static_cast<size_t>(a)].value; }
  bool IsLive(const Node& node) const { return live_[static_cast<size_t>(node.results[0])]; }

  // Whether workers read no variable of the group but the lead, and all updates of the group are by row, of one pushed
  // value with rows and of scalars.
  bool IsUpdatedByRow(const VariableGroup& group, ValueId& pushed) const {
    if (facts_.updates[static_cast<size_t>(group.lead)] == kNoValue) return false;
    VariableGroup again = group;
    again.pushed.clear();
    if (!CutUpdates(facts_, facts_.is_by_row, again).ok() || again.pushed != group.pushed) return false;
    for (ValueId value : group.pushed) {
      if (TypeOf(value).rank() == 0) continue;
      if (pushed != kNoValue) return false;
      pushed = value;
    }
    for (int a : group.arguments) {
      if (a != group.lead && live_[static_cast<size_t>(ValueOf(a))]) return false;
      if (!ReadsNoWholeValues(group, facts_.updates[static_cast<size_t>(a)])) return false;
    }
    return pushed != kNoValue;
  }
  // Whether the value reads no shared value with dims: its rows would not be those of the table.
  bool ReadsNoWholeValues(const VariableGroup& group, ValueId root) const {
    std::vector<ValueId> stack = {root};
    std::set<ValueId> seen;
    while (!stack.empty()) {
      const ValueId value = stack.back();
      stack.pop_back();
      if (value == kNoValue || !seen.insert(value).second ||
          std::binary_search(group.pushed.begin(), group.pushed.end(), value))
        continue;
      if (facts_.is_shared[static_cast<size_t>(value)]) {
        if (TypeOf(value).rank() > 0) return false;
        continue;
      }
      const int n = graph_.value(value).node;
      if (n < 0) continue;
      const Node& node = graph_.nodes()[static_cast<size_t>(n)];
      const std::span<const ValueId> operands = ComputedFrom(node);
      stack.insert(stack.end(), operands.begin(), operands.end());
    }
    return true;
  }

  bool FindIds(SparseTable& table) const {
    const ValueId value = ValueOf(table.argument);
    for (const OutputInfo& output : graph_.outputs())
      if (output.value == value) return false;
    std::set<ValueId> ids;
    for (const Node& node : graph_.nodes()) {
      if (!IsLive(node)) continue;
      for (size_t o = 0; o < node.operands.size(); ++o) {
        if (node.operands[o] != value) continue;
        if (o != 0 || node.row->name != "gather" || node.attrs.Get<int64_t>("dim") != 0) return false;
        const auto by = static_cast<size_t>(node.operands[1]);
        if (varies_[by] || !facts_.from_input[by]) return false;
        ids.insert(node.operands[1]);
      }
    }
    table.ids.assign(ids.begin(), ids.end());
    return !ids.empty();
  }

  bool IsScatter(const Node& node, const SparseTable& table) const {
    return node.row->name == "scatter_add" && node.attrs.Get<int64_t>("dim") == 0 &&
           TypeOf(node.results[0]) == TypeOf(ValueOf(table.argument)) &&
           std::binary_search(table.ids.begin(), table.ids.end(), node.operands[1]);
  }

  // Whether the result has the table's rows, with zeros in the rows that no id names. `has_rows`: by operand, whether
  // it has the table's rows.
  static bool KeepsZeros(const Node& node, const std::vector<bool>& has_rows) {
    const std::string_view name = node.row->name;
    const bool all = std::find(has_rows.begin(), has_rows.end(), false) == has_rows.end();
    if (name == "add" || name == "sub") return all;
    if (name == "div" && !(has_rows.size() == 2 && has_rows[0] && !has_rows[1])) return false;
    return std::find(std::begin(kKeepZeros), std::end(kKeepZeros), name) != std::end(kKeepZeros);
  }
  // Whether the result does not depend on rows of zeros.
  static bool IgnoresZeros(const Node& node, bool are_finite) {
    if (node.row->name != (are_finite ? "reduce_all" : "reduce_sum")) return false;
    const auto& dims = node.attrs.Get<std::vector<int64_t>>("dims");
    return std::find(dims.begin(), dims.end(), 0) != dims.end();
  }

  // The values of the table's shape from which the push is computed by row. Another scatter at the same ids may be the
  // gradient of another table of this shape, which only enters the norm by which this table's gradient is clipped.
  std::set<ValueId> Terms(const SparseTable& table) const {
    std::set<ValueId> terms = {table.pushed};
    for (size_t n = graph_.nodes().size(); n-- > 0;) {
      const Node& node = graph_.nodes()[n];
      if (!terms.contains(node.results[0]) || IsScatter(node, table)) continue;
      for (ValueId id : node.operands)
        if (TypeOf(id).shape == TypeOf(table.pushed).shape) terms.insert(id);
    }
    return terms;
  }

  // Finds the values from the scatters to the push. Returns whether nothing else is made of them.
  bool FindGradients(SparseTable& table) const {
    const std::set<ValueId> terms = Terms(table);
    std::set<ValueId> finite;  // whether the elements are finite, as a loss scale asks: those of no id are
    for (const Node& node : graph_.nodes()) {
      if (!IsLive(node)) continue;
      if (IsScatter(node, table) && terms.contains(node.results[0]) &&
          !table.values.contains(node.operands[0])) {
        table.values.insert(node.results[0]);
        continue;
      }
      std::vector<bool> has_rows;
      for (ValueId id : node.operands) has_rows.push_back(table.values.contains(id));
      if (std::find(has_rows.begin(), has_rows.end(), true) == has_rows.end()) continue;
      const bool are_finite = finite.contains(node.operands[0]);
      if (node.row->name == "is_finite" && !are_finite) {
        table.values.insert(node.results[0]);
        finite.insert(node.results[0]);
        continue;
      }
      if (!are_finite && KeepsZeros(node, has_rows) &&
          TypeOf(node.results[0]).shape == TypeOf(ValueOf(table.argument)).shape) {
        // An operand that has as many rows, but not the table's, lacks a meaning for some of the rows.
        for (size_t o = 0; o < node.operands.size(); ++o)
          if (!has_rows[o] && TypeOf(node.operands[o]).num_elements() != 1) return false;
        table.values.insert(node.results[0]);
      } else if (!IgnoresZeros(node, are_finite)) {
        return false;
      }
    }
    for (const OutputInfo& output : graph_.outputs())
      if (table.values.contains(output.value)) return false;
    // A value that is also pushed for another variable cannot have the rows of this one.
    for (size_t g = 0; g < plan_.groups.size(); ++g)
      for (ValueId value : plan_.groups[g].pushed)
        if (g != table.group && table.values.contains(value)) return false;
    return table.values.contains(table.pushed);
  }

  const UpdateFacts& facts_;
  const Graph& graph_;
  const UpdatePlan& plan_;
  const std::vector<bool>& live_;
  std::vector<bool> varies_;  // per value: it depends on a variable
};

}  // namespace

std::vector<SparseTable> FindSparseTables(const UpdateFacts& facts, const UpdatePlan& plan,
                                          const std::vector<bool>& live) {
  const TableFinder finder(facts, plan, live);
  std::vector<SparseTable> tables;
  for (size_t g = 0; g < plan.groups.size(); ++g)
    if (std::optional<SparseTable> table = finder.Find(g); table.has_value())
      tables.push_back(*std::move(table));
  return tables;
}

}  // namespace meshwork
