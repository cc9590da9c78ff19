// The gradient of a scan is a scan in the opposite direction; the gradient of a branch is a branch.
//
// The body of a scan is copied, and its gradients are built behind it as for any program. Values of the
// iteration that the gradients read become further results of the forward loop, stacked; the backward loop
// gets them slice by slice. With recompute=true only the carries are stacked, and the backward loop computes
// the rest again. Values that an iteration computes from captured values alone are always computed again,
// because otherwise equal values would be stacked `length` times. Gradients of captured values are sums over
// the iterations, so they are reduced once, after the loop.
//
// OpRow::grad_regions of the rows scan, while and if.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// The gradient of each operand of node `n`; invalid for "none". Appends to the graph; may add results to the
// node.
absl::StatusOr<std::vector<Value>> ScanGradients(Graph& graph, int n, const std::vector<Value>& result_grads,
                                                 const std::vector<bool>& needed);
absl::StatusOr<std::vector<Value>> IfGradients(Graph& graph, int n, const std::vector<Value>& result_grads,
                                               const std::vector<bool>& needed);
// Error: a while has no gradient.
absl::StatusOr<std::vector<Value>> WhileGradients(Graph& graph, int n, const std::vector<Value>& result_grads,
                                                  const std::vector<bool>& needed);

}  // namespace meshwork
