// Attention, and positions in it. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <optional>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Attention.
struct AttentionOptions {
  bool causal = false;               // query i sees only keys 0 to i
  std::optional<double> scale = {};  // of q·k; 1 / sqrt(d)
  Value mask = {};                   // bool, broadcasts to [b,h,s,t]: where it is false, a key is not seen
  // i32[b,s]: each query sees only this many keys, the first ones; the other keys may hold anything. 0: no
  // key. For a cache of keys that is not yet full, for example. With `causal`, a query sees the keys that
  // both allow.
  Value seen = {};
  // If both sequences are sharded by the same axes, devices pass blocks of k and v round a ring and never
  // hold more than two of each (Liu et al., arXiv 2310.01889). This sends as many bytes as a gather, but
  // whole blocks where the last ones are short. For gradients, k and v go round once more, and so does q with
  // the result's gradient; gathered k and v would be kept from the forward pass until then. A causal mask
  // saves no time, because one of the n devices needs all blocks. If the axes do not divide the batch, or if
  // there are more than 1024 blocks, k and v are gathered as without `ring`; with a mask, `ring` does
  // nothing.
  bool ring = false;
};
// q: [b,s,h,d], k: [b,t,h,d], v: [b,t,h,e] -> [b,s,h,e]: for each query the mean of v over the keys, in
// shares Softmax(scale · q·k), head by head (Vaswani et al., arXiv 1706.03762, section 3.2). Without a mask
// it is one row that never has all scores in memory; b, h, s and e stay sharded as they are. If k and v are
// sharded along t and the queries are not, as with a cache of keys, each device attends to its own keys and
// the results are merged, if that sends less; else k and v are gathered, unless options.ring is set. A key
// that a query does not see adds nothing, even if it is infinite; a query that sees no keys, or only scores
// of -inf, gives 0. Gradients of the gradients have all scores in memory. With a mask it is a composite of
// other rows: there a query that sees no key gives NaN, and so does a masked infinity in v. Errors: shapes,
// dtypes, a mask that does not broadcast, a `seen` that is not i32[b,s].
Value Attention(const Operand& q, const Operand& k, const Operand& v, const AttentionOptions& options = {});
// x: [..,s,h,d], d even. Turns dims i and i + d/2 of the heads of position p by the angle p · base^(-2i/d),
// so that products of queries and keys depend on the distance of their positions (Su et al., arXiv
// 2104.09864, section 3.2, with the two halves paired instead of neighbours). Errors: fewer dims, an odd d,
// no floats, base not above 0.
Value RotaryPositions(const Operand& x, double base = 10000);

}  // namespace meshwork
