// The same global program for another batch size.
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// The function whose nodes cut a batch into microbatches, as the source locations of these nodes name it
// (SourceLocation::within).
inline constexpr const char* kMicrobatches = "MeanOverMicrobatches";

// A copy of a global `graph` in which dim 0 of the inputs has `to` elements instead of `from`.
//
// The rules say which other dims grow with the batch: dims that carry the same letter are one dim, so the batch dim is
// followed through every op, including shapes written as attributes. Sizes that the program computes with (means) are
// ops of their own (dimension_size) and follow. Tensors that are joined to the batch or padding around it along dim 0
// (concat, pad) keep their sizes: 6 rows below a batch of 6 stay 6. A single element of the batch, x[i], stays the i-th
// element, and so does its gradient. If the number of microbatches (train/optim/microbatches.h) does not divide `to`,
// it changes, so that all microbatches have one size. Inputs whose dim 0 is not `from`, or which have no dims, stay as
// they are, except for dims that the rules tie to the batch, which grow with it: an input [2 from] that is added to
// [from, 2] reshaped. Errors: from < 1, to < 0; a variable has a dim that is tied to the batch; a dim tied to the batch
// whose new size would not be a whole number (a reshape of [batch,a] to [batch*a] is scaled; one that splits the batch
// must divide); a slice of several elements, or of the last one (which may be x[-1]), that cuts a dim whose size
// follows the batch; a loop whose length, or whose slices, would have to follow the batch; a size that a function was
// given (ops/given_sizes.h) and that is tied to the batch; a constant, iota or random numbers, a one-hot's or a
// scatter's result with a dim of the batch's size that meets no input, so that nothing tells whether this dim is the
// batch.
absl::StatusOr<Graph> Rebatch(const Graph& graph, int64_t from, int64_t to);

}  // namespace meshwork
