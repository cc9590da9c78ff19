// The lemmas of Verify for ops that compute: an op of the global program on blocks, by its rule, and sums
// that the global program adds up in another order.
//
//   %1 = matmul %a, %b : f32[8,6] {_,_ | sum:x}    by the rule mk,kn->mn: %a and %b are cut alike along k,
//                                                  over x, so that %1 owes the sum over x
//
// Thread-safe for different Claims.
#pragma once

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/verify/claims.h"

namespace meshwork {

// Proves that the results of `node` are blocks of those of an op of the global program, or of a sum of its
// values, and sets their claims. Errors: the global program has no such op of these operands; the blocks do
// not fit its rule; padding that it reduces over is not masked. The caller puts the node in front.
absl::Status CheckCompute(Claims& claims, const Node& node);

}  // namespace meshwork
