// What collectives and block-local ops do to a layout: used to write local programs and to check them.
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"

namespace meshwork {

// Whether this is a program of blocks: it has a collective, a block-local op, or a value that is part of
// another type. One that has none of them can be read as either.
bool IsLocal(const Graph& graph);

// Errors: bools are combined by anything but `and` and `or`, other values by one of those.
absl::Status CheckReduction(ReduceOp op, const Type& type);
// The same of everything that a value of this layout owes.
absl::Status CheckPartials(const Layout& layout, const Type& type);

// The dtype in which a device holds its part of a value that owes `owed`: f32 where bf16 are added or
// multiplied, so that the whole is rounded once, as on one device. The ops `widen` and `narrow` take bf16
// there and back.
DType CarriedDType(DType dtype, const PartialSet& owed);

// The layout of the result of a collective (not collective_permute) or kLocal op on an operand of
// `layout`. Errors: axes the operand does not have there, an op that differs from the partial's.
absl::StatusOr<Layout> ResultLayout(const OpRow& row, const Attrs& attrs, const Layout& layout);

// Appends a collective or kLocal op; the result infos follow from the operands' and the attributes.
// REQUIRES: ResultLayout is OK for every operand. Returns the node.
int AddLocalNode(Graph& graph, std::string_view op, std::span<const ValueId> operands, const Attrs& attrs,
                 const SourceLocation& location, std::string cause);

// Checks one node of a local program: local types against layouts and the op. What a compute op says of
// its result's global type and layout is taken as written. The error names no
// place; the caller does.
absl::Status CheckLocalNode(const Graph& graph, const Node& node);

}  // namespace meshwork
