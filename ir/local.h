// The effect of collectives and block-local ops on a layout, for writing and checking local programs.
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"

namespace meshwork {

// Whether this is a program of blocks: it, or a region of it, has a collective, a block-local op, or a value
// whose type differs from its global type. A program with none of these can be read as global or local.
bool IsLocal(const Graph& graph);

// Errors: bools are combined by anything but `and` and `or`, or other values by one of these two.
absl::Status CheckReduction(ReduceOp op, const Type& type);
// The same for every reduction that a value of this layout owes.
absl::Status CheckPartials(const Layout& layout, const Type& type);

// The dtype in which a device holds its term of a value that owes `owed`: f32 if bf16 are to be added or
// multiplied, so that the whole is rounded once, as on one device. The ops `widen` and `narrow` convert bf16
// to this dtype and back.
DType CarriedDType(DType dtype, const PartialSet& owed);

// The layout of the result of a collective (not collective_permute) or kLocal op on an operand of
// `layout`. Errors: axes that the operand does not have there; a reduction other than the partial's.
absl::StatusOr<Layout> ResultLayout(const OpRow& row, const Attrs& attrs, const Layout& layout);

// Appends a collective or kLocal op and returns the node; the result infos follow from the operands' infos
// and the attributes. REQUIRES: ResultLayout is OK for every operand.
int AddLocalNode(Graph& graph, std::string_view op, std::span<const ValueId> operands, const Attrs& attrs,
                 const SourceLocation& location, SharedText cause);

// Checks one node of a local program: local types against layouts and the op. The global types and layouts of
// a compute op's results are taken as written. The error names no place; the caller adds it.
absl::Status CheckLocalNode(const Graph& graph, const Node& node);

}  // namespace meshwork
