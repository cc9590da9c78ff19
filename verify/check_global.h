// What a global program must be for Compile and Verify to take it.
#pragma once

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// Errors: a local program; an op of a manual region outside of one; a manual region without a device_block; a
// value or a relayout that is to stay partial.
absl::Status CheckGlobal(const Graph& graph);

}  // namespace meshwork
