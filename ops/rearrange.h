// Repetitions, and updates of slices. Part of ops/ops.h, which says what holds of all.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Repetitions and updates.
// x repeats[d] times along dim d, one x behind the other (NumPy's tile, of as many entries as x has dims).
Value Tile(const Operand& x, const std::vector<int64_t>& repeats);
// Every element `count` times along dim, one behind the other (NumPy's repeat).
Value Repeat(const Operand& x, int64_t count, int64_t dim);
// x, whose [start : : stride], as far as the update reaches, is the update. Error: it reaches beyond x.
Value UpdateSlice(const Operand& x, const Operand& update, const std::vector<int64_t>& start,
                  const std::vector<int64_t>& stride = {});

}  // namespace meshwork
