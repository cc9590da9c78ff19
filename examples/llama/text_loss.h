// How well a Llama predicts a text: the program that computes the loss, and the text as its examples.
//
//   MESHWORK_ASSIGN_OR_RETURN(Perplexity perplexity, PerplexityOf(config, mesh, "model", tokenizer.Encode(text)));
//
// Thread safety: pure functions, but for PerplexityOf, which runs a session of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "examples/llama/llama_config.h"
#include "meshwork/train.h"

namespace meshwork {

struct TextLossOptions {
  int64_t batch = 4, length = 128;  // texts at a time, and tokens of each
  Precision precision = {};
};

// Gives an empty graph its layouts and the program tokens, next: i32[batch,length] -> loss, the mean cross-entropy of the next
// tokens. Errors: options out of range. Those of the program itself are in graph.status().
absl::StatusOr<Value> AddTextLoss(Graph& graph, const LlamaConfig& config, const TextLossOptions& options);

// The text in parts of `length` tokens, with the tokens behind them, in batches; what is shorter than a part is left out. For
// training with a seed: in an order drawn by it, and without a last batch of fewer parts. Errors: a text that is shorter than a
// part, or than a batch of a training; tokens that the model does not have.
absl::StatusOr<Pipeline> TextBatches(const LlamaConfig& config, std::span<const int32_t> text,
                                     const TextLossOptions& options,
                                     std::optional<uint64_t> shuffle_seed = {});

struct PerplexityOptions {
  TextLossOptions text;
  std::string adapters = {};  // as GeneratorOptions::adapters
  SessionOptions session = {};
};
struct Perplexity {
  double value = 0;    // e to the mean cross-entropy
  int64_t tokens = 0;  // that were predicted, each from those before it in its part
};
// `dir` has the weights, whole or in blocks. All domains call it alike. Errors: those of the functions above, of
// LlamaAdapters::Load, of LoadWeights and of Evaluate.
absl::StatusOr<Perplexity> PerplexityOf(const LlamaConfig& config, const Mesh& mesh, const std::string& dir,
                                        std::span<const int32_t> text, const PerplexityOptions& options = {});

}  // namespace meshwork
