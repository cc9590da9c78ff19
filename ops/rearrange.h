// Repetitions, reversals by length, and updates of slices. Part of ops/ops.h, which says what holds for all ops.
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
// x: [..,b,..,t,..], lengths: integers [b] -> x with the first lengths[row] slices along seq_dim in reverse order, for
// each row along batch_dim; the other slices stay (tf.reverse_sequence). A length below 0 counts as 0, above t as t.
// It is its own inverse for the same lengths. If x is sharded along dims other than seq_dim alone, neither the op nor
// its gradient sends anything. Errors: no such dim; seq_dim and batch_dim are one; lengths that are no whole numbers
// [b].
Value ReverseSequence(const Operand& x, const Operand& lengths, int64_t seq_dim = 1, int64_t batch_dim = 0);
// x with [start : : stride], as far as the update reaches, replaced by the update. Error: the update reaches
// beyond x.
Value UpdateSlice(const Operand& x, const Operand& update, const std::vector<int64_t>& start,
                  const std::vector<int64_t>& stride = {});

}  // namespace meshwork
