// Values without operands. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Each device generates its own block; any layout, no communication.
Value Constant(Graph& graph, double value, const Type& type, CallSite loc = CallSite::Current());
// 0, 1, 2, … along `dim`.
Value Iota(Graph& graph, const Type& type, int64_t dim, CallSite loc = CallSite::Current());
// x: integers [..] -> [.., depth], 1 where the last index equals x, else 0.
Value OneHot(const Operand& x, int64_t depth, DType dtype);
// Numbers of real `type` [n] from start to stop, both included, at equal distances; if n is 1, start.
Value Linspace(Graph& graph, double start, double stop, const Type& type, CallSite loc = CallSite::Current());
// type: […,n,m]; 1 where column - row is `offset`, else 0.
Value Eye(Graph& graph, const Type& type, int64_t offset = 0, CallSite loc = CallSite::Current());

}  // namespace meshwork
