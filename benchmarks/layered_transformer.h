// A program whose compilation is measured: a training step of a transformer of L blocks, on a mesh
// batch x model.
#pragma once

#include <cstdint>

#include "meshwork.h"

namespace meshwork {

struct LayeredTransformerOptions {
  int layers = 4;
  // Per device: sequences, tokens of a sequence, heads; and units of a head. They are few, so that no tensor
  // has more than 2^40 elements on 2^20 devices.
  int64_t local_sequences = 1, local_tokens = 1, local_heads = 1, head_units = 16;
};

// x, target: f32[sequences,tokens,units] -> loss, with Adam. Each block is LayerNorm, attention by heads and
// a residual, LayerNorm, an MLP with GELU and a residual. Sequences lie along `batch`; heads and the MLP's
// units along `model`, and so do the tokens in between (Korthikanti et al., arXiv 2205.05198). Mistakes are
// recorded in the graph.
void BuildLayeredTransformer(Graph& graph, const LayeredTransformerOptions& options);

}  // namespace meshwork
