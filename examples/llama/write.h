// Writes on prompts to standard output, as the example does.
#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/llama/generator.h"
#include "examples/llama/llama_config.h"
#include "examples/llama/tokenizer.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

struct WriteOptions {
  std::vector<std::string> prompts;  // one is printed as it is written; several are written at a time
  std::string system;                // with is_chat: a message before the prompt
  int64_t tokens = 200;              // the most that are written
  bool is_chat = false;              // a prompt is a message in the form of ChatML, to be answered
  bool stats = false;                // says how long it took, to standard error
};

// `dir` has the weights, which are loaded beside the tokenizer. Errors: those of Generator and of `loading`.
absl::Status Write(const LlamaConfig& config, std::future<absl::StatusOr<Tokenizer>> loading,
                   const Mesh& mesh, const std::string& dir, const WriteOptions& options,
                   GeneratorOptions generator);

}  // namespace meshwork
