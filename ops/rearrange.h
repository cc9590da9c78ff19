// Repetitions, and updates of slices. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Repetitions and updates.
// x repeats[d] times along dim d, one x after the other (NumPy's tile, with one entry per dim of x).
Value Tile(const Operand& x, const std::vector<int64_t>& repeats);
// Every element `count` times along dim, one after the other (NumPy's repeat).
Value Repeat(const Operand& x, int64_t count, int64_t dim);
// x with [start : : stride], as far as the update reaches, replaced by the update. Error: the update reaches
// beyond x.
Value UpdateSlice(const Operand& x, const Operand& update, const std::vector<int64_t>& start,
                  const std::vector<int64_t>& stride = {});

}  // namespace meshwork
