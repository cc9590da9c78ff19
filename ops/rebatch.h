// The same global program for another batch size.
#pragma once

#include "absl/status/statusor.h"
#include "ops/graph.h"

namespace meshwork {

// A copy of a global `graph` in which dim 0 of the inputs, `from` elements today, has `to`.
//
// Which other dims grow with it is read off the rules: dims that carry the same letter are one dim,
// so the batch dim is followed through every op, shapes written as attributes included. Sizes the
// program computes with (means) are ops of their own (dimension_size) and follow.
// Inputs whose dim 0 is not `from`, or which have no dims, stay as they are, but for dims that a rule ties to
// the batch: these grow as it does.
// Errors: from < 1, to < 0; a variable has a dim that is tied to the batch; an op that mixes the batch with
// another dim in one dim (a reshape of [batch,a] to [batch*a] is scaled; one that splits the batch must
// divide); a loop whose length, or whose slices, would have to follow the batch; a slice that cuts a dim
// whose size follows the batch.
absl::StatusOr<Graph> Rebatch(const Graph& graph, int64_t from, int64_t to);

}  // namespace meshwork
