// Writes on texts by a Llama. Several rows are written at a time; each has a text of its own, of its own length, and rows
// begin and end while others go on. Nothing is compiled for that.
//
//   MESHWORK_ASSIGN_OR_RETURN(Generator generator, Generator::Create(config, mesh, "model", {.rows = 4}));
//   MESHWORK_ASSIGN_OR_RETURN(int32_t token, generator.Begin(/*row=*/0, tokens));   // the first one behind the prompt
//   MESHWORK_ASSIGN_OR_RETURN(std::vector<int32_t> next, generator.Next());         // of each row
//
// Two programs share the weights and a cache of keys and values (Session::Share): one reads a prompt in parts, the other
// writes one token of each row. A part of a prompt has one of few sizes; what lacks is filled up. Weights that the folder has
// in blocks (meshwork import gguf --keep-blocks) stay so.
//
// Thread safety: one call at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/llama/llama_config.h"
#include "meshwork/session/load_weights.h"
#include "meshwork/session/session.h"
#include "meshwork/train/nn/low_rank.h"

namespace meshwork {

// How a token is chosen among the logits.
struct Sampling {
  double temperature = 0;  // 0: the most likely one
  int64_t top_k = 0;       // among the k most likely ones; 0: all
  double top_p = 1;        // among the fewest most likely ones with this probability
  int64_t seed = 0;
};

struct GeneratorOptions {
  int64_t rows = 1;     // texts at a time
  int64_t context = 0;  // the longest text, in tokens; 0: 2048, or what the model has if that is less
  Sampling sampling;
  std::string adapters =
      {};  // a folder of adapters (examples/llama/adapters.h) that the weights get; empty: none
  SessionOptions session = {};
};

class Generator {
 public:
  // `dir` has the weights. Errors: those of LlamaAdapters::Load, StoredInBlocks, InBlocks, LoadWeights and Session::Create;
  // options out of range.
  static absl::StatusOr<Generator> Create(const LlamaConfig& config, const Mesh& mesh, const std::string& dir,
                                          const GeneratorOptions& options = {});

  // Gives a row a new text, and returns its next token. Errors: no tokens; tokens that the model does not have; more than
  // the context holds; those of Session::Share and Session::Run.
  absl::StatusOr<int32_t> Begin(int64_t row, std::span<const int32_t> prompt);
  // The next token of each row, of rows without a text any. Errors: a row's text is as long as the context; those of
  // Session::Run.
  absl::StatusOr<std::vector<int32_t>> Next();
  // The row has no text any more. REQUIRES, here and below: there is such a row.
  void End(int64_t row);
  // The number of tokens of a row's text that are in the cache.
  int64_t length(int64_t row) const { return lengths_[static_cast<size_t>(row)]; }

  int64_t context() const { return context_; }
  const LoadedWeights& loaded() const { return loaded_; }
  Session& session() { return session_; }

 private:
  Generator(const LlamaConfig& config, const Mesh& mesh, std::vector<QuantizeWeightsOptions> stored,
            const GeneratorOptions& options, int64_t context, std::optional<LowRankOptions> adapters,
            Session session, LoadedWeights loaded);

  // The program that reads parts of `size` tokens, compiled at its first use.
  absl::StatusOr<Session*> Reader(int64_t size);

  LlamaConfig config_;
  Mesh mesh_;
  std::vector<QuantizeWeightsOptions> stored_;  // the weights that are in blocks
  GeneratorOptions options_;
  int64_t context_, draws_ = 0;
  std::optional<LowRankOptions> adapters_;
  Session session_;                     // writes tokens
  std::map<int64_t, Session> readers_;  // by the size of their parts
  LoadedWeights loaded_;
  std::vector<int32_t> last_,
      lengths_;  // of each row: the token that is not in the cache yet, and the tokens that are
  std::vector<bool> has_text_;
};

}  // namespace meshwork
