// The lemmas of Verify for nodes that leave values as they are and lay them out anew: collective, slice,
// mask, rounding, reshape, exchange.
//
//   %1 = all_gather %0 dim=0 axes=(x)    %1 is a block of the same term as %0
//
// Each function proves the results of one node from the claims of its operands, and sets their claims.
// Errors: the node does not take the operands to its results; the caller puts the node in front.
// verify/blocks.h says which layouts a collective takes to each other. Thread-safe for different Claims.
#pragma once

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/verify/claims.h"

namespace meshwork {

// A collective, a slice or a mask: the result is the operand, laid out anew.
absl::Status CheckMove(Claims& claims, const Node& node, ValueId from, ValueId to);

// A block that is put together from pieces that several devices hold: an op that moves elements, or the
// windows of a tensor that an op reads.
absl::Status CheckExchanged(Claims& claims, const Node& node);

// The elements that a device holds, in their order, are those of the result.
absl::Status CheckReshape(Claims& claims, const Node& node);

// bf16 in f32, and back. The value is the same, rounded or not.
absl::Status CheckRounding(Claims& claims, const Node& node);

}  // namespace meshwork
