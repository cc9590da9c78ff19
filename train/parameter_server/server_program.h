// The program of one server: the updates of its pieces, copied out of a training program. Only this room uses it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/exec/row_range.h"
#include "meshwork/train/parameter_server/update_facts.h"
#include "meshwork/train/parameter_server/update_plan.h"

namespace meshwork {

class ServerProgram {
 public:
  // Keeps a reference to the facts.
  ServerProgram(const UpdateFacts& facts, std::string name);

  // Adds the variables of a group, with these rows ({0, 1} for scalars), and their updates. `suffix`: is added to the
  // names of the variables. `names`: of the pushed values (PushedRows::name). Errors: only of a mistake in this
  // library.
  absl::Status Add(const VariableGroup& group, const RowRange& rows, std::string_view suffix,
                   const std::map<ValueId, std::string>& names);
  // Adds the variables alone.
  void AddKept(const VariableGroup& group, const RowRange& rows, std::string_view suffix);
  // Adds the update of kTemplateRows rows of a group, from inputs to outputs (SparseVariable::update).
  absl::Status AddRows(const VariableGroup& group, const std::map<ValueId, std::string>& names);
  // Adds the shared scalars, which every server keeps.
  absl::Status AddShared(const VariableGroup& group, const std::map<ValueId, std::string>& names);
  absl::StatusOr<Graph> Finish() &&;

 private:
  // The part of the program that is being added.
  struct Part {
    const VariableGroup* group;
    RowRange rows;
    std::string_view suffix;
    const std::map<ValueId, std::string>* names;
    bool is_cut;  // it has not all rows
    std::map<ValueId, Value> made = {};
  };

  void DeclareKept(Part& part);
  absl::Status AddUpdates(Part& part);
  Type TypeIn(const Part& part, ValueId value, bool by_row) const;
  // `by_row`: the rows of the part; else the whole value.
  absl::StatusOr<Value> Make(Part& part, ValueId value, bool by_row);
  absl::StatusOr<Value> MakeNode(Part& part, ValueId value);
  absl::StatusOr<Value> MakeShared(ValueId value);
  absl::StatusOr<Value> Append(const Node& node, const std::vector<Value>& operands, int64_t rows,
                               ValueId result);
  Value Pushed(const std::string& name, const Type& type);

  const UpdateFacts& facts_;
  const Graph& from_;
  Graph to_;
  std::map<ValueId, Value> shared_;
  std::map<std::string, Value> inputs_;
};

}  // namespace meshwork
