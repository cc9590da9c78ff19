// Which weights of published models are those of a TransformerBlock (train/nn/transformer_block.h).
//
//   LoadWeightsOptions load{.rules = BlockWeightRules(PublishedBlock::kLlama, "block*", "model.layers.*")};
//   load.rules.push_back({.variable = "embedding/table", .tensor = "model.embed_tokens.weight"});
//   LoadWeights(session, "SmolLM2-135M", load)
//
// Thread safety: pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/session/load_weights.h"

namespace meshwork {

// How a family of models in Hugging Face's transformers calls the weights of a block.
enum class PublishedBlock : uint8_t {
  kLlama,  // and Mistral and Qwen2: "self_attn.q_proj.weight", "mlp.gate_proj.weight", "input_layernorm.weight", …
  kBert,  // and RoBERTa: "attention.self.query.weight", "intermediate.dense.weight", "output.LayerNorm.weight", …
};

// The rules for all variables of the blocks `block`, a pattern, whose tensors begin with `published`; each * of `published`
// becomes what the same * of `block` stands for. Variables that a block does not have need no tensors.
std::vector<WeightRule> BlockWeightRules(PublishedBlock kind, const std::string& block,
                                         const std::string& published);

}  // namespace meshwork
