// Shared by the families' builder functions and gradients.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "meshwork/ir/attrs.h"
#include "meshwork/ir/dim_list.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// The operands of one op as Values: numbers become scalar constants of the dtype of the first
// operand that is a Value. The location is that of the first operand. If one operand is invalid, all are.
struct ResolvedOperands {
  Graph* graph = nullptr;  // null if an operand is invalid
  std::vector<Value> values;
  SourceLocation location;
};
ResolvedOperands Resolve(const std::vector<Operand>& operands);

// Records "op (model.cc:41): …" against the operands' graph.
template <typename... Args>
void RecordMistake(const ResolvedOperands& at, std::string_view op, fmt::format_string<Args...> format,
                   Args&&... args) {
  at.graph->RecordError(at.graph->Describe(op, at.location) + ": " +
                        fmt::format(format, std::forward<Args>(args)...));
}

// Resolves the operands and appends one node; returns its first result.
Value AddOp(std::string_view op, const std::vector<Operand>& operands, const Attrs& attrs = {});

// `dim` of the first operand, counted from 0; a negative `dim` counts from the end. If there is no such dim,
// records a mistake and returns nothing.
std::optional<int64_t> CountDim(const ResolvedOperands& at, std::string_view op, int64_t dim);
// The same for several dims; a dim that is given twice is a mistake, too.
std::optional<std::vector<int64_t>> CountDims(const ResolvedOperands& at, std::string_view op,
                                              const DimList& dims);
// `dim` of a tensor of `rank` dims, counted from 0; as it is if there is no such dim.
int64_t FromFront(int64_t dim, int64_t rank);
std::vector<int64_t> AllFromFront(std::vector<int64_t> dims, int64_t rank);
// AddOp with the attribute "dim" (or "dims") set to `dim` (or `dims`) of the first operand.
Value AddOpAlong(std::string_view op, const std::vector<Operand>& operands, int64_t dim, Attrs attrs = {});
Value AddOpOver(std::string_view op, const std::vector<Operand>& operands, const DimList& dims,
                Attrs attrs = {});

// Sums `grad` over the dims along which a tensor of `type` was broadcast to grad's shape.
Value SumToType(const Value& grad, const Type& type);

// The shape that operands broadcast to, right-aligned. Error: dims that are neither equal nor 1.
absl::StatusOr<Shape> BroadcastShapes(const std::vector<Type>& operands);

// Shapes as attributes hold them, and back.
inline Shape ToShape(const std::vector<int64_t>& list) { return Shape(list.begin(), list.end()); }
inline std::vector<int64_t> ToInts(const Shape& shape) { return {shape.begin(), shape.end()}; }

// Checks that the attribute `value` is an element of `dtype`: a whole number if `dtype` holds whole numbers.
// Digits that a double rounds away are not noticed.
absl::Status CheckElement(double value, DType dtype);

// Checks the value of dim `d` for a tensor of `rank` dims.
absl::Status CheckDim(std::string_view attribute, int64_t d, const Type& type);

}  // namespace meshwork
