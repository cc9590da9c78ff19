// Attention, and positions in it. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Attention.
struct AttentionOptions {
  bool causal = false;               // query i sees only keys 0 to i
  std::optional<double> scale = {};  // of q·k; 1 / sqrt(d)
  // bool, broadcasts to [b,h,s,t], h: the heads of queries; where it is false, a key is not seen.
  Value mask = {};
  // i32[b,s]: each query sees only this many keys, the first ones; 0: no key. The other keys may hold
  // anything, unless attention is a composite (below). For a cache of keys that is not yet full, for example.
  // With `causal`, a query sees the keys that both allow.
  Value seen = {};
  // With `causal` or `seen`: of the keys that they allow, a query sees only this many, the last ones (Beltagy et al.,
  // arXiv 2004.05150). 0: all.
  int64_t window = 0;
  // Scores are cap · tanh(score / cap) (Gemma 2, arXiv 2408.00118, section 2). 0: they stay.
  double soft_cap = 0;
  // What becomes of the shares, [b,h,s,t] or [b,h,g,s,t], before they weight v: dropout, for example.
  std::function<Value(const Value& shares)> drop = nullptr;
  // If both sequences are sharded by the same axes, devices pass blocks of k and v round a ring and never
  // hold more than two of each (Liu et al., arXiv 2310.01889). This sends as many bytes as a gather, but
  // whole blocks where the last ones are short. For gradients, k and v go round once more, and so does q with
  // the result's gradient; gathered k and v would be kept from the forward pass until then. A causal mask
  // saves no time, because one of the n devices needs all blocks. If the axes do not divide the batch, or if
  // there are more than 1024 blocks, k and v are gathered as without `ring`; with mask, window, soft_cap or drop,
  // `ring` does nothing.
  bool ring = false;
};
// q: [b,s,h,d], k: [b,t,h,d], v: [b,t,h,e] -> [b,s,h,e]: for each query the mean of v over the keys, in
// shares Softmax(scale · q·k), head by head (Vaswani et al., arXiv 1706.03762, section 3.2). If q has g times
// as many heads as k and v, each g that follow each other share one of theirs (grouped queries: Ainslie et
// al., arXiv 2305.13245); k and v are not repeated. q may also be [b,s,h,g,d], for a result [b,s,h,g,e], whose
// h and g are sharded each by itself.
//
// It is one row that never has all scores in memory; b, h, g, s and e stay sharded as they are. If k and v are
// sharded along t and the queries are not, as with a cache of keys, each device attends to its own keys and
// the results are merged, if that sends less; else k and v are gathered, unless options.ring is set. A key
// that a query does not see adds nothing, even if it is infinite; a query that sees no keys, or only scores
// of -inf, gives 0. Gradients of the gradients have all scores in memory. With mask, window, soft_cap or drop
// it is a composite of other rows, which has all scores in memory: there a query that sees no key gives NaN,
// and so does an infinity in v that is hidden.
//
// Errors: shapes, dtypes, heads of q that those of k do not divide, a mask that does not broadcast, a `seen`
// that is not i32[b,s], a window below 0 or without `causal` and `seen`, a soft_cap below 0.
Value Attention(const Operand& q, const Operand& k, const Operand& v, const AttentionOptions& options = {});

// Which dims of a head turn together.
enum class RotaryPairs : uint8_t {
  kHalves,      // i and i + n/2, as in the models of Hugging Face
  kNeighbours,  // 2i and 2i + 1, as in the paper and in GGUF files of Llama
};
// How models that were trained on short sequences turn slower on longer ones.
struct RotaryScaling {
  enum class Form : uint8_t {
    kNone,
    kLinear,  // all angles divided by `factor` (Chen et al., arXiv 2306.15595)
    kNtk,     // base · factor^(n/(n-2)) in the place of the base
    // As Llama 3.1 does: pairs of which fewer than low_turns turns fit into original_positions are divided by `factor`,
    // those with more than high_turns stay, and between them it is the mean, weighted by the turns.
    kLlama3,
  };
  Form form = Form::kNone;
  double factor = 1;
  double low_turns = 1, high_turns = 4;  // "low_freq_factor" and "high_freq_factor"
  int64_t original_positions = 8192;
};
struct RotaryOptions {
  double base = 10000;
  // i32 or i64 [s] or [b,s]: the positions; 0, 1, … if there are none. For rows at places of their own.
  Value positions = {};
  RotaryPairs pairs = RotaryPairs::kHalves;
  int64_t dims = 0;  // how many dims of a head turn, the first ones; 0: all
  RotaryScaling scaling = {};
};
// x: [..,s,h,d]. Turns the i-th pair of dims of the heads of position p by the angle p · base^(-2i/n), n = d or
// options.dims, so that products of queries and keys depend on the distance of their positions (Su et al., arXiv
// 2104.09864, section 3.2). Angles are computed in f32, or f64 for x in f64. Errors: fewer dims, no floats; an odd n, or
// one above d; a base or factor that is not above 0; turns that do not grow; positions of another type or shape.
Value RotaryPositions(const Operand& x, const RotaryOptions& options = {});

}  // namespace meshwork
