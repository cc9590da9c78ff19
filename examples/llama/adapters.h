// Low-rank adapters of a Llama (train/nn/low_rank.h), in a folder as PEFT of Hugging Face has it: adapter_config.json says
// which products have adapters, and adapter_model.safetensors has these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/llama/llama_config.h"
#include "meshwork/train.h"

namespace meshwork {

struct LlamaAdapters {
  int64_t rank = 8;
  double alpha = 16;
  std::vector<std::string> modules = {"q_proj", "k_proj", "v_proj",
                                      "o_proj"};  // as Hugging Face calls the products

  // Errors: the file cannot be read, lacks something, or asks for what is not here.
  static absl::StatusOr<LlamaAdapters> Load(const std::string& dir);
};

// The options that give a Llama these adapters. Error: it has no such product.
absl::StatusOr<LowRankOptions> LowRankOptionsOf(const LlamaAdapters& adapters, const LlamaConfig& config);

// Sets the adapters of a session's program to those in the folder. Errors: those of LoadWeights.
absl::Status LoadAdapters(Session& session, const std::string& dir, const LlamaConfig& config);
// Writes the folder, in domain 0. `base`: the folder of the model, for PEFT. All domains call it. Errors: those of
// SaveWeights and WriteFileAtomically.
absl::Status SaveAdapters(const Session& session, const std::string& dir, const LlamaAdapters& adapters,
                          const LlamaConfig& config, const std::string& base);

// Writes a folder like `base`, the folder of the model, with the weights of the session instead: in domain 0. Adapters are
// left out; MergeLowRankAdapters makes them part of the weights before. All domains call it. Errors: those of SaveWeights;
// the other files cannot be copied.
absl::Status SaveModel(const Session& session, const std::string& dir, const LlamaConfig& config,
                       const std::string& base);

}  // namespace meshwork
