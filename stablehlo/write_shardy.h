// A global program as one StableHLO module with its pins, for Shardy, XLA's partitioner: a second opinion on layouts, and on what a
// step has to send.
//
//   MESHWORK_ASSIGN_OR_RETURN(const std::string module, WriteShardy(graph));
//
// Main takes and returns whole tensors, in the order of WriteStableHlo. A pin of an argument is its sdy.sharding, and so is one of a
// result; any other is an sdy.sharding_constraint behind its op, where dims that the pin leaves open are open. A value without a
// pin gets no attribute. A variable's new value has the variable's sharding. Pins within loops are left out. num_partitions is the number of
// devices; a compiler needs use_spmd_partitioning and use_shardy_partitioner, too.
//
// Pure; thread-safe. Source: Shardy's documentation, openxla.org/shardy.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// Errors: UNIMPLEMENTED: the ops that have no form (manual regions, registered ops); a pin of a strided layout.
absl::StatusOr<std::string> WriteShardy(const Graph& global);

}  // namespace meshwork
