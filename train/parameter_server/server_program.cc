#include "meshwork/train/parameter_server/server_program.h"

#include <algorithm>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/ops/generate.h"
#include "meshwork/ops/slicing.h"
#include "meshwork/train/parameter_server/split.h"

namespace meshwork {

ServerProgram::ServerProgram(const UpdateFacts& facts, std::string name)
    : facts_(facts), from_(facts.graph), to_(Mesh::VirtualCpus("server=1").value()) {
  to_.name = std::move(name);
}

absl::Status ServerProgram::Add(const VariableGroup& group, const RowRange& rows, std::string_view suffix,
                                const std::map<ValueId, std::string>& names) {
  Part part{&group, rows, suffix, &names, group.pieces > 1};
  DeclareKept(part);
  return AddUpdates(part);
}

void ServerProgram::AddKept(const VariableGroup& group, const RowRange& rows, std::string_view suffix) {
  Part part{&group, rows, suffix, nullptr, group.pieces > 1};
  DeclareKept(part);
}

void ServerProgram::DeclareKept(Part& part) {
  for (int a : part.group->arguments) {
    const ValueId value = from_.arguments()[static_cast<size_t>(a)].value;
    const ValueInfo& info = from_.value(value);
    const LocationScope scope(to_, info.location);
    part.made[value] =
        to_.Var(info.name + std::string(part.suffix), Initializer{.type = TypeIn(part, value, true)});
  }
}

absl::Status ServerProgram::AddRows(const VariableGroup& group, const std::map<ValueId, std::string>& names) {
  Part part{&group, {0, kTemplateRows}, "", &names, true};
  for (int a : group.arguments) {
    const ValueId value = from_.arguments()[static_cast<size_t>(a)].value;
    const Type type = TypeIn(part, value, true);
    part.made[value] = to_.Input(RowsOf(from_.value(value).name), type.dtype, type.shape);
  }
  for (int a : group.arguments) {
    const ValueId root = facts_.updates[static_cast<size_t>(a)];
    if (root == kNoValue) continue;
    MESHWORK_ASSIGN_OR_RETURN(const Value next, Make(part, root, true));
    to_.Output(RowsOf(from_.argument_name(a)), next);
  }
  return absl::OkStatus();
}

absl::Status ServerProgram::AddShared(const VariableGroup& group,
                                      const std::map<ValueId, std::string>& names) {
  for (int a : group.arguments) {
    const ValueId value = from_.arguments()[static_cast<size_t>(a)].value;
    const ValueInfo& info = from_.value(value);
    const LocationScope scope(to_, info.location);
    shared_[value] = to_.Var(info.name, Initializer{.type = info.type});
  }
  Part part{&group, {0, 1}, "", &names, false};
  return AddUpdates(part);
}

absl::Status ServerProgram::AddUpdates(Part& part) {
  for (int a : part.group->arguments) {
    const ValueId root = facts_.updates[static_cast<size_t>(a)];
    if (root == kNoValue) continue;
    const ValueId variable = from_.arguments()[static_cast<size_t>(a)].value;
    MESHWORK_ASSIGN_OR_RETURN(const Value next, Make(part, root, true));
    const Value kept =
        facts_.is_shared[static_cast<size_t>(variable)] ? shared_.at(variable) : part.made.at(variable);
    to_.Update(Variable(&to_, kept.id()), next);
  }
  return absl::OkStatus();
}

Type ServerProgram::TypeIn(const Part& part, ValueId value, bool by_row) const {
  Type type = from_.value(value).type;
  if (by_row && part.is_cut && type.rank() > 0) type.shape[0] = part.rows.size();
  return type;
}

Value ServerProgram::Pushed(const std::string& name, const Type& type) {
  const auto found = inputs_.find(name);
  if (found != inputs_.end()) return found->second;
  return inputs_[name] = to_.Input(PushInput(name), type.dtype, type.shape);
}

absl::StatusOr<Value> ServerProgram::Make(Part& part, ValueId value, bool by_row) {
  if (facts_.is_shared[static_cast<size_t>(value)]) {
    MESHWORK_ASSIGN_OR_RETURN(const Value whole, MakeShared(value));
    if (!by_row || !part.is_cut || whole.rank() == 0) return whole;
    return SliceDim(whole, 0, part.rows.begin, part.rows.end);
  }
  const auto found = part.made.find(value);
  if (found != part.made.end()) return found->second;
  if (std::binary_search(part.group->pushed.begin(), part.group->pushed.end(), value))
    return part.made[value] = Pushed(part.names->at(value), TypeIn(part, value, by_row));
  return MakeNode(part, value);
}

absl::StatusOr<Value> ServerProgram::MakeNode(Part& part, ValueId value) {
  const auto n = static_cast<size_t>(from_.value(value).node);
  const Node& node = from_.nodes()[n];
  if (IsNote(node)) {
    MESHWORK_ASSIGN_OR_RETURN(const Value same, Make(part, node.operands[0], true));
    return part.made[value] = same;
  }
  std::vector<Value> operands;
  for (size_t o = 0; o < node.operands.size(); ++o) {
    const bool has_rows = facts_.is_by_row[n] && facts_.row_operands[n][o];
    MESHWORK_ASSIGN_OR_RETURN(const Value operand, Make(part, node.operands[o], has_rows));
    operands.push_back(operand);
  }
  MESHWORK_ASSIGN_OR_RETURN(const Value first,
                            Append(node, operands, part.is_cut ? part.rows.size() : -1, node.results[0]));
  for (size_t r = 0; r < node.results.size(); ++r)
    part.made[node.results[r]] = Value(&to_, first.id() + static_cast<ValueId>(r));
  return part.made[value];
}

absl::StatusOr<Value> ServerProgram::MakeShared(ValueId value) {
  const auto found = shared_.find(value);
  if (found != shared_.end()) return found->second;
  const ValueInfo& info = from_.value(value);
  // Arguments are there already, except in a program of rows, which takes them as inputs.
  if (info.node < 0)
    return shared_[value] = to_.Input(SharedInput(info.name), info.type.dtype, info.type.shape);
  const Node& node = from_.nodes()[static_cast<size_t>(info.node)];
  const LocationScope scope(to_, node.location);
  if (node.row->name == "dimension_size") {
    int64_t size = 1;
    for (int64_t d : node.attrs.Get<std::vector<int64_t>>("dims"))
      size *= from_.value(node.operands[0]).type.shape[static_cast<size_t>(d)];
    return shared_[value] = Constant(to_, static_cast<double>(size), from_.value(value).type);
  }
  std::vector<Value> operands;
  for (ValueId id : node.operands) {
    MESHWORK_ASSIGN_OR_RETURN(const Value operand, MakeShared(id));
    operands.push_back(operand);
  }
  if (IsNote(node)) return shared_[value] = operands[0];
  MESHWORK_ASSIGN_OR_RETURN(const Value first, Append(node, operands, -1, node.results[0]));
  for (size_t r = 0; r < node.results.size(); ++r)
    shared_[node.results[r]] = Value(&to_, first.id() + static_cast<ValueId>(r));
  return shared_[value];
}

// `rows`: of a piece; -1: the node as it is.
absl::StatusOr<Value> ServerProgram::Append(const Node& node, const std::vector<Value>& operands,
                                            int64_t rows, ValueId result) {
  std::vector<ValueId> ids;
  std::vector<Type> now;
  for (const Value& operand : operands) {
    if (!operand.valid()) return to_.status();
    ids.push_back(operand.id());
    now.push_back(operand.type());
  }
  Attrs attrs = node.attrs;
  Shape shape = from_.value(result).type.shape;
  if (rows >= 0 && !shape.empty()) {
    shape[0] = rows;
    const std::vector<Type> before = TypesOf(from_, node.operands), results = TypesOf(from_, node.results);
    MESHWORK_ASSIGN_OR_RETURN(attrs, ResizedAttrs(*node.row, {before, results, node.attrs}, now, shape));
  }
  MESHWORK_ASSIGN_OR_RETURN(const int n, to_.TryAdd(*node.row, ids, attrs, node.location));
  return Value(&to_, to_.nodes()[static_cast<size_t>(n)].results[0]);
}

absl::StatusOr<Graph> ServerProgram::Finish() && {
  MESHWORK_RETURN_IF_ERROR(to_.status());
  return std::move(to_);
}

}  // namespace meshwork
