// Whether a program computes each row of its batch for itself, as most models do outside of training.
//
//   %h = matmul %x, %w : f32[8,5]               row i of %h comes from row i of %x alone
//   %m = reduce_mean %h dims=[0] : f32[5]       mixes the rows
//
// If it does, rows may be cut into parts, padded, or put together with rows of other callers: a row's results stay the
// same, but for rounding.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// Per output of a global program whose batch has `rows` rows: how many elements of its dim 0 belong to each row of the
// batch, one after the other; 0 for an output that is the same for every batch.
//
// The sizes of Rebatch (ops/control/rebatch.h) tell which dims follow the batch. From the inputs on, each op must keep
// the rows apart: its rule has one letter for the dims that follow the batch, and this letter is neither reduced nor
// whole nor windowed. A reshape may split and join dims behind the rows. Conservative: a program that keeps the rows
// apart in another way is refused.
//
// Law: row i of the outputs is that of a program for one row (Rebatch) that is fed row i of the inputs.
// Errors: those of Rebatch to one row more; an op mixes the rows, or its result depends on their places (an iota, random
// numbers) or on their number, and an output needs it; an input or output follows the batch in another dim than dim 0;
// an input has several elements of dim 0 for a row.
absl::StatusOr<std::vector<int64_t>> IndependentRows(const Graph& graph, int64_t rows);

}  // namespace meshwork
