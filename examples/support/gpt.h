// A decoder-only transformer over bytes: one global program, whatever the mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "meshwork/train.h"

namespace meshwork {

struct GptModel {
  int64_t layers = 2;
  int64_t dim = 64;
  int64_t heads = 4;
  int64_t sequence = 64;
  int64_t vocabulary = 256;
  bool rotary = true;   // else a learned vector for each position
  bool ring = false;    // keys and values go round a ring along "seq", whatever the number of heads
  int64_t experts = 0;  // of each layer; 0: one feed-forward network for all tokens
  DType dtype = F32;    // of the weights and the optimizer's state
  std::optional<DType> compute = {};  // what layers compute in; nothing: dtype
};

// Each block is LayerNorm, causal attention and a residual, LayerNorm, a feed-forward network of 4 dim hidden
// units with GELU and a residual (Radford et al., "Language models are unsupervised multitask learners",
// 2019). The logits are the result of the last norm times a kernel. tokens, targets: i32[batch,sequence] ->
// "loss", the mean cross-entropy of the targets, and "accuracy", scalars.
//
// An axis "batch" of the mesh shards the examples; "seq" shards the positions; "model" shards heads, hidden
// units, the vocabulary and the experts (Shoeybi et al., arXiv 1909.08053). With "seq", attention takes all
// positions and cuts the heads further (Jacobs et al., arXiv 2309.14509) if the number of heads allows it;
// else it gathers keys and values. If model.ring, keys and values go round a ring instead. Mistakes are
// recorded.
//
// With experts, each layer's network is a mixture of `experts` networks. Each token chooses one expert. An
// expert takes at most twice its share of the tokens of an example. To "loss" is added 0.01 times a measure
// of how unevenly the experts are chosen.
void BuildGpt(Graph& graph, const GptModel& model, int64_t batch, const Optimizer& optimizer);

// tokens: i32[1,sequence] -> "logits" [1,sequence,vocabulary] of the byte that follows each token, with the
// same variables.
void BuildGptSampler(Graph& graph, const GptModel& model);

// The names of the model's variables, without the optimizer's.
std::vector<std::string> GptWeights(const Graph& graph);

// i32[batch,sequence], random: replaces a text when only time matters. Each `stream` has numbers of its own.
Tensor RandomTokens(const GptModel& model, int64_t batch, uint64_t stream);

}  // namespace meshwork
