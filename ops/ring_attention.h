// Attention of a sharded sequence without gathering it: the rows of ops/attention.cc on blocks.
//
// The sequence of keys is cut into n blocks, one per device. If the queries are not cut in this way, as in
// decoding with a cache of keys and values, each device attends to its own block for all queries, and the
// results are merged by log-sums (Dao et al., Flash-Decoding). With o_i and l_i the result and log-sum of
// device i:
//
//   m = max l_i, w_i = exp(l_i - m), o = sum w_i o_i / sum w_i, l = m + log(sum w_i)
//
// This sends a maximum and two sums of the size of the results. If the queries are cut in the same way and
// `ring` is set, blocks of keys and values go round (Liu et al., Ring Attention, arXiv 2310.01889): in step r
// device i attends to block i - r, which its neighbour has just passed on, and merges the result with what it
// has.
//
// The gradient of q needs the keys once more; they go the other way round, so that no device keeps those of
// the forward pass. For the gradients of k and v, keys and values stay, and queries go round with everything
// that belongs to a query. So a device holds one block of the tensors that go round, and the block that it
// passes on. Short and empty blocks are filled up; the rows' last operand says how many keys of a block each
// query sees.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/row.h"

namespace meshwork {

// The dim of the keys' sequence in the operands q, k, v, …. RingDim, for the gradients: only if `ring` is
// set.
std::optional<OperandDim> KeysDim(const Attrs& attrs);
std::optional<OperandDim> RingDim(const Attrs& attrs);

// The form of attention (OpRow::blockwise): the ring, if it is asked for and the sequences of q, k and v are
// cut alike, into at most 1024 blocks; else the merge, if it sends less than the keys and values. Otherwise,
// and if the batch is not cut evenly, empty: keys and values are gathered.
std::vector<Value> AttentionBlockwise(const BlockwiseView& view);
// Forms of attention_grad_q and attention_grad_kv: the ring.
std::vector<Value> RingGradQ(const BlockwiseView& view);
std::vector<Value> RingGradKv(const BlockwiseView& view);

}  // namespace meshwork
