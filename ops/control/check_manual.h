// The requirements on a manual region (ops/control/manual.h), and the types of its results.
//
//   %y = manual %x (%a: f32[8,4] {batch,_}) { … %2 = device_block %1 {batch,_} : f32[8,4] … } : f32[32,4]
//
//   %x is an f32[32,4]: the layout of %a cuts it into f32[8,4]; %y is put together as the device_block says
//
// Pure functions, thread-safe.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// The types of the results of a manual node. Errors: every requirement that the node does not meet.
absl::StatusOr<std::vector<Type>> InferManual(const Node& node, const std::vector<Type>& operands);

// Checks that the body is one of a global program: a result is a device_block, which states its layout.
// InferManual accepts both kinds. Error: no result is a device_block.
absl::Status CheckManualIsGlobal(const Node& node);

}  // namespace meshwork
