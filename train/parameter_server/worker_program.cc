#include "meshwork/train/parameter_server/worker_program.h"

#include <algorithm>
#include <map>

#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/live_values.h"

namespace meshwork {
namespace {

class WorkerMaker {
 public:
  WorkerMaker(const Graph& graph, const std::vector<SparseTable>& tables, const NamedValues& ids)
      : graph_(graph), tables_(tables), worker_(graph.mesh()), map_(graph.values().size(), kNoValue) {
    worker_.name = graph.name;
    next_ids_ = ids.begin();
  }

  Graph Make(const std::vector<bool>& live, const std::vector<OutputInfo>& outputs) && {
    for (const Argument& argument : graph_.arguments())
      if (!argument.is_variable || live[static_cast<size_t>(argument.value)])
        map_[static_cast<size_t>(argument.value)] =
            worker_.AddArgument(graph_.value(argument.value), argument.is_variable);
    for (const SparseTable& table : tables_) AddTable(table);
    for (const Node& node : graph_.nodes())
      if (live[static_cast<size_t>(node.results[0])]) Copy(node);
    for (const OutputInfo& output : outputs)
      worker_.AddOutput({output.name, map_[static_cast<size_t>(output.value)]});
    return std::move(worker_);
  }

 private:
  ValueId VariableOf(const SparseTable& table) const {
    return graph_.arguments()[static_cast<size_t>(table.argument)].value;
  }
  void SetRows(ValueId value, int64_t rows) {
    ValueInfo& info = worker_.mutable_value(value);
    info.type.shape[0] = rows;
    info.global.shape[0] = rows;
  }
  void AddTable(const SparseTable& table) {
    SetRows(map_[static_cast<size_t>(VariableOf(table))], table.capacity);
    for (ValueId id : table.ids) {
      const Type& type = graph_.value(id).type;
      renumbered_[{&table, id}] = worker_.Input((next_ids_++)->second, type.dtype, type.shape).id();
    }
  }
  // The table that a node gathers from, or to whose rows it scatters; or null.
  const SparseTable* TableOf(const Node& node) const {
    const auto found = std::find_if(tables_.begin(), tables_.end(), [&](const SparseTable& table) {
      return (node.row->name == "gather" && node.operands[0] == VariableOf(table)) ||
             (node.row->name == "scatter_add" && table.values.contains(node.results[0]));
    });
    return found == tables_.end() ? nullptr : &*found;
  }
  void Copy(const Node& node) {
    const SparseTable* const table = TableOf(node);
    if (table == nullptr) {
      CopyNode(graph_, node, worker_, map_);
    } else {
      // Other readers of the ids read them unchanged.
      ValueId& ids = map_[static_cast<size_t>(node.operands[1])];
      const ValueId unchanged = ids;
      ids = renumbered_.at({table, node.operands[1]});
      CopyNode(graph_, node, worker_, map_);
      ids = unchanged;
    }
    for (const SparseTable& of : tables_) {
      if (!of.values.contains(node.results[0])) continue;
      const ValueId result = map_[static_cast<size_t>(node.results[0])];
      SetRows(result, of.capacity);
      Node& copy = worker_.mutable_node(worker_.value(result).node);
      copy.attrs = WithResultShape(*copy.row, copy.attrs, worker_.value(result).type.shape);
    }
  }

  const Graph& graph_;
  const std::vector<SparseTable>& tables_;
  Graph worker_;
  std::vector<ValueId> map_;
  NamedValues::const_iterator next_ids_;
  std::map<std::pair<const SparseTable*, ValueId>, ValueId> renumbered_;
};

}  // namespace

Graph WorkerProgram(const Graph& graph, const std::vector<bool>& live, const std::vector<OutputInfo>& outputs,
                    const std::vector<SparseTable>& tables, const NamedValues& ids) {
  return WorkerMaker(graph, tables, ids).Make(live, outputs);
}

Graph IdsProgram(const Graph& graph, const NamedValues& ids) {
  Graph marked = graph;
  marked.ClearUpdates();
  marked.ClearOutputs();
  for (const auto& [value, name] : ids) marked.AddOutput({name, value});
  const std::vector<bool> live = LiveValues(marked);
  Graph program(graph.mesh());
  program.name = "ids";
  std::vector<ValueId> map(graph.values().size(), kNoValue);
  for (const Argument& argument : graph.arguments())
    if (live[static_cast<size_t>(argument.value)])
      map[static_cast<size_t>(argument.value)] =
          program.AddArgument(graph.value(argument.value), argument.is_variable);
  for (const Node& node : graph.nodes())
    if (live[static_cast<size_t>(node.results[0])]) CopyNode(graph, node, program, map);
  for (const auto& [value, name] : ids) program.AddOutput({name, map[static_cast<size_t>(value)]});
  return program;
}

}  // namespace meshwork
