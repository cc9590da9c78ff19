// The conditions under which Compile and Verify accept a global program.
#pragma once

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// Errors: a local program; an op of manual regions outside of a manual region; a manual region without a
// device_block; a value or a relayout that is to stay partial.
absl::Status CheckGlobal(const Graph& graph);

}  // namespace meshwork
