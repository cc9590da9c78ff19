#include "meshwork/ir/row.h"

#include <algorithm>

#include "meshwork/base/status.h"

namespace meshwork {

Attrs WithResultShape(const OpRow& row, Attrs attrs, const Shape& shape) {
  for (const AttrSpec& spec : row.attrs) {
    if (!spec.is_result_shape) continue;
    if (spec.kind == AttrKind::kInt) attrs.Set(spec.name, shape.back());
    else attrs.Set(spec.name, std::vector<int64_t>(shape.begin(), shape.end()));
  }
  return attrs;
}

absl::StatusOr<Attrs> ResizedAttrs(const OpRow& row, const OpView& view, const std::vector<Type>& operands,
                                   const Shape& shape) {
  if (row.resize == nullptr) return WithResultShape(row, view.attrs, shape);
  MESHWORK_ASSIGN_OR_RETURN(Attrs attrs, row.resize(view, operands));
  return WithResultShape(row, std::move(attrs), shape);
}

absl::Status CheckOperandCount(const OpRow& row, size_t given) {
  const auto least = static_cast<size_t>(std::max(row.num_operands, 0));
  const size_t most = least + static_cast<size_t>(row.optional_operands);
  if (row.num_operands < 0)
    return given > 0 ? absl::OkStatus() : InvalidArgument("takes at least one operand, got none.");
  if (given >= least && given <= most) return absl::OkStatus();
  return InvalidArgument("takes {}{}, got {}.", most > least ? "at most " : "", Count(most, "operand"),
                         given);
}

absl::StatusOr<std::vector<Type>> InferTypes(const OpRow& row, const std::vector<Type>& operands,
                                             const Attrs& attrs) {
  const auto refuse = [](std::string_view what, const Type& type, std::string_view instead) {
    return InvalidArgument("{} {}, and {} only stores and feeds numbers; {}.", what, type.ToString(),
                           DTypeName(type.dtype), instead);
  };
  if (!row.takes_storage)
    for (const Type& type : operands)
      if (IsStorage(type.dtype)) return refuse("takes", type, "Cast it to f32, say, and compute with that");
  absl::StatusOr<std::vector<Type>> results = row.infer({operands, {}, attrs});
  if (!row.takes_storage && results.ok())
    for (const Type& type : *results)
      if (IsStorage(type.dtype)) return refuse("gives", type, "ask for f32, say, and Cast that");
  return results;
}

std::vector<Type> TypesOf(const Graph& graph, std::span<const ValueId> values) {
  std::vector<Type> types;
  types.reserve(values.size());
  for (ValueId id : values) types.push_back(graph.value(id).type);
  return types;
}

std::vector<Type> GlobalTypesOf(const Graph& graph, std::span<const ValueId> values) {
  std::vector<Type> types;
  types.reserve(values.size());
  for (ValueId id : values) types.push_back(graph.value(id).global);
  return types;
}

Rule RuleOf(const Graph& graph, const Node& node) {
  MESHWORK_CHECK(node.row->rule != nullptr, "{} has no rule", node.row->name);
  const std::vector<Type> operands = TypesOf(graph, node.operands);
  const std::vector<Type> results = TypesOf(graph, node.results);
  return node.row->rule({operands, results, node.attrs});
}

}  // namespace meshwork
