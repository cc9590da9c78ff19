// A decoder-only transformer over bytes: one global program, whatever the mesh.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork.h"

namespace meshwork {

struct GptModel {
  int64_t layers = 2;
  int64_t dim = 64;
  int64_t heads = 4;
  int64_t sequence = 64;
  int64_t vocabulary = 256;
  bool rotary = true;   // else a learned vector for each position
  bool ring = false;    // attention passes keys and values on along "seq", whatever the number of heads
  int64_t experts = 0;  // of each layer; 0: one feed-forward network for all tokens
  DType dtype = F32;
};

// Blocks of LayerNorm, causal attention and a residual, LayerNorm, a feed-forward network of 4 dim hidden
// units with GELU and a residual (Radford et al., "Language models are unsupervised multitask learners",
// 2019); the last norm's result times a kernel are the logits. tokens, targets: i32[batch,sequence] ->
// "loss", the mean of the cross-entropies of each target, and "accuracy", scalars of the dtype.
//
// Of the mesh, an axis "batch" shards the examples; "seq" the positions, which attention takes whole for
// heads cut further (Jacobs et al., arXiv 2309.14509) where their number allows, else with gathered keys and
// values, or with those that go round if model.ring; "model" heads, hidden units, the vocabulary and the
// experts (Shoeybi et al., arXiv 1909.08053). Mistakes are recorded.
//
// With experts, each layer's network is a mixture: "experts" of them, one chosen for each token, each taking
// at most twice as many tokens of an example as its share; "loss" is that plus 0.01 of how unevenly they are
// chosen.
void BuildGpt(Graph& graph, const GptModel& model, int64_t batch, const Optimizer& optimizer);

// tokens: i32[1,sequence] -> "logits" [1,sequence,vocabulary] of the byte that follows each, with the same
// variables.
void BuildGptSampler(Graph& graph, const GptModel& model);

// The variables that are the model, not the optimizer.
std::vector<std::string> GptWeights(const Graph& graph);

}  // namespace meshwork
