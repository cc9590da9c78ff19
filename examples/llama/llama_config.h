// The shape of a Llama, as the config.json of Hugging Face gives it. Models of the types llama, mistral and qwen2 are Llamas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/core.h"

namespace meshwork {

struct LlamaConfig {
  int64_t units = 0, hidden = 0, layers = 0, vocabulary = 0;
  int64_t heads = 0, kv_heads = 0, head = 0;  // heads of queries, of keys and values, and the dims of each
  int64_t positions = 0;                      // the longest sequence
  double epsilon = 1e-6;                      // of the norms
  RotaryOptions rotary;
  int64_t window = 0;              // AttentionOptions::window
  bool bias = false;               // of queries, keys and values
  bool out_bias = false;           // of attention's last product
  bool tied = false;               // the embedding is the last product's weight, too
  std::vector<int32_t> ends = {};  // tokens that end a text

  // Errors: the file cannot be read; it lacks something, or asks for what is not here.
  static absl::StatusOr<LlamaConfig> Load(const std::string& path);
};

}  // namespace meshwork
