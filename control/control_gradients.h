// The gradient of a scan is a scan the other way; that of a branch is a branch.
//
// The body of a scan is copied, and its gradients are built behind it as those of any program. What they read
// of the iteration becomes a further result of the forward loop, stacked, which the backward loop gets slice
// by slice; with recompute=true only the carries do, and the backward loop computes the rest again. What an
// iteration computes of captured values alone is computed again in any case: it would be stacked length
// times. Gradients of captured values are sums over the iterations, so they are reduced once, after the loop.
//
// OpRow::grad_regions of the rows scan, while and if.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// The gradients of the operands of node `n`, per operand; invalid for none. Appends to the graph; may add
// results to the node.
absl::StatusOr<std::vector<Value>> ScanGradients(Graph& graph, int n, const std::vector<Value>& result_grads,
                                                 const std::vector<bool>& needed);
absl::StatusOr<std::vector<Value>> IfGradients(Graph& graph, int n, const std::vector<Value>& result_grads,
                                               const std::vector<bool>& needed);
// Error: a while has none.
absl::StatusOr<std::vector<Value>> WhileGradients(Graph& graph, int n, const std::vector<Value>& result_grads,
                                                  const std::vector<bool>& needed);

}  // namespace meshwork
