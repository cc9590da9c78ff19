// The gradient of a manual region is a manual region: it computes again what the region computed, and the
// gradients behind that.
//
//   %y  = manual %x (%a) { … }
//   %dx = manual %x, %dy (%a, %cotangent1) { …, then the gradient of %a }
//
// If a value is the same on all devices of an axis (ops/control/variation.h), its gradients are added up over the
// axis. Thread-safe for different graphs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// The gradients of the operands of a manual node; see OpRow::grad_regions.
absl::StatusOr<std::vector<Value>> ManualGradients(Graph& graph, int node,
                                                   const std::vector<Value>& result_grads,
                                                   const std::vector<bool>& needed);

// manual::OwnGradients for axes that have been looked up already.
std::optional<std::vector<Value>> OwnGradientsOver(const AxisList& axes, const Value& loss,
                                                   std::span<const Value> wrt, CallSite loc);

}  // namespace meshwork
