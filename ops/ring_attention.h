// Attention of a sharded sequence without gathering it: the rows of ops/attention.cc on blocks, between which
// those of the other side go round (Liu et al., Ring Attention, arXiv 2310.01889).
//
// The sequence is cut in n blocks, one per device. In step r device i attends to the keys of block i - r,
// whose keys and values its neighbour has just passed on, and merges what comes out with what it has, by
// log-sums:
//
//   l = log(exp(l1) + exp(l2)), o = o1 exp(l1 - l) + o2 exp(l2 - l)
//
// The gradient of q needs the keys once more; they go the other way round, so that nobody keeps those of the
// forward pass for it. For the gradients of k and v these stay, and queries go round with all that there is
// one of per query. So a device holds a block of what goes round, and the one that it passes on.
#pragma once

#include <optional>
#include <vector>

#include "ops/row.h"

namespace meshwork {

// The keys' sequence, if attention on operands q, k, v, … is asked to go round.
std::optional<OperandDim> RingDim(const Attrs& attrs);

// Forms of attention, attention_grad_q and attention_grad_kv (OpRow::blockwise). Empty, so that the sequence
// is gathered, where the sequences of q, k and v are not cut alike and in equal blocks; or, with causal,
// differ in length; or where the batch is not cut evenly.
std::vector<Value> RingAttention(const BlockwiseView& view);
std::vector<Value> RingGradQ(const BlockwiseView& view);
std::vector<Value> RingGradKv(const BlockwiseView& view);

}  // namespace meshwork
