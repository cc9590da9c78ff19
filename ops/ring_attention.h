// Attention of a sharded sequence without gathering it: the rows of ops/attention.cc on blocks.
//
// The sequence of keys is cut in n blocks, one per device. Where the queries are not cut so, as in decoding
// with a cache of keys and values, each device attends to its own block for all queries, and what comes out
// is added up by log-sums (Dao et al., Flash-Decoding): with o_i and l_i the result and log-sum of device i,
//
//   m = max l_i, w_i = exp(l_i - m), o = sum w_i o_i / sum w_i, l = m + log(sum w_i)
//
// which sends a maximum and two sums of the size of the results. Where the queries are cut alike and `ring`
// is set, blocks of the other side go round (Liu et al., Ring Attention, arXiv 2310.01889): in step r device
// i attends to the keys of block i - r, whose keys and values its neighbour has just passed on, and merges
// what comes out with what it has.
//
// The gradient of q needs the keys once more; they go the other way round, so that nobody keeps those of the
// forward pass for it. For the gradients of k and v these stay, and queries go round with all that there is
// one of per query. So a device holds a block of what goes round, and the one that it passes on. Short and
// empty blocks are filled up; how many keys of a block each query sees is the rows' last operand.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/row.h"

namespace meshwork {

// The keys' sequence, of operands q, k, v, …; for the gradients, only if they are asked to go round.
std::optional<OperandDim> KeysDim(const Attrs& attrs);
std::optional<OperandDim> RingDim(const Attrs& attrs);

// Form of attention (OpRow::blockwise): the ring, where that is asked for and the sequences of q, k and v are
// cut alike, in at most 1024 blocks; else the merge, where that sends less than the keys and values. Empty,
// so that these are gathered, otherwise and where the batch is not cut evenly.
std::vector<Value> AttentionBlockwise(const BlockwiseView& view);
// Forms of attention_grad_q and attention_grad_kv: the ring.
std::vector<Value> RingGradQ(const BlockwiseView& view);
std::vector<Value> RingGradKv(const BlockwiseView& view);

}  // namespace meshwork
