// Draws of classes, as a language model's next token. Part of ops/ops.h, which says what holds for all ops.
//
//   Value token = RandomCategorical(KeepTopP(logits / temperature, 0.9), seed, stream, step);
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// logits: [..,c] -> i32 [..]: of each row a class, drawn with the probabilities Softmax(logits), by the largest of the
// logits and Gumbel noise (Maddison et al., "A* Sampling", 2014, section 2). Seed, stream and step as of RandomUniform,
// so the draws are the same in every layout; a class of logit -∞ is drawn only where all are -∞. Errors: logits are no
// reals; there are no classes; RandomUniform's.
Value RandomCategorical(const Operand& logits, int64_t seed, int64_t stream, const Value& step = {});

// Keep the logits of the likely classes of each row and set the others to -∞; logits: [..,c]. Classes as likely as the
// least likely class that is kept are kept, too. Errors: logits are no reals; k or p is out of its range.
Value KeepTopK(const Operand& logits, int64_t k);  // the k most likely ones; 1 <= k <= c
// The fewest most likely ones whose probabilities sum to p or more (Holtzman et al., "The Curious Case of Neural Text
// Degeneration", 2020, section 3.1); 0 < p <= 1.
Value KeepTopP(const Operand& logits, double p);

}  // namespace meshwork
