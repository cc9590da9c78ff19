// Checks of the elements that become one batch, for Batch, PaddedBatch and BucketBySequenceLength.
#pragma once

#include "absl/status/status.h"
#include "meshwork/train/data/columns.h"
#include "meshwork/train/data/example.h"

namespace meshwork::internal {

// Error: the element has no columns, a text, or a column that is invalid.
absl::Status CheckTensors(const Example& element);
// Error: it has other columns than the batch's first element, or in another order.
absl::Status CheckNames(const Example& element, const Columns& first);

}  // namespace meshwork::internal
