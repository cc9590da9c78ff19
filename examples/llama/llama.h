// A Llama in a graph: its layers (Touvron et al., arXiv 2302.13971), where its weights lie, and their names in published files.
//
//   const Llama llama(g, config);
//   Value h = llama(tokens, caches);           // i32[b,s] -> [b,s,units]
//   Value next = Argmax(llama.Logits(h), -1);  // i32[b,s]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/llama/llama_config.h"
#include "meshwork/session/load_weights.h"
#include "meshwork/train.h"

namespace meshwork {

// Weights are cut along the axis "model"; axes that the mesh lacks cut nothing.
LayoutRules LlamaLayouts(const LlamaConfig& config);

// Where LoadWeights finds the variables of Llama, whole or in blocks, and SaveWeights puts them. Caches, "cache/*", and adapters
// keep their values.
LoadWeightsOptions LlamaWeights(const LlamaConfig& config);

// The program with weights in blocks, as StoredInBlocks finds them in a folder ("meshwork import gguf --keep-blocks"). Errors:
// those of QuantizeWeights; a mesh may cut whole weights where it cannot cut blocks.
absl::StatusOr<Graph> InBlocks(Graph graph, const std::vector<QuantizeWeightsOptions>& stored);

class Llama {
 public:
  // Declares the weights: all zeros, and norms that scale by 1.
  Llama(Graph& graph, const LlamaConfig& config);

  // tokens: i32[b,s] -> [b,s,units]. caches: one per layer, which this replaces (AttendTo::cache), or none: then the tokens
  // are whole texts, from their beginnings on.
  Value operator()(const Value& tokens, std::vector<AttentionCache>& caches) const;
  // h: [..,units] -> [..,vocabulary].
  Value Logits(const Value& h) const;

 private:
  Embedding embedding_;
  std::vector<TransformerBlock> blocks_;
  RmsNormalization norm_;
  std::optional<Dense> head_;  // none: the embedding's table is its kernel
};

}  // namespace meshwork
