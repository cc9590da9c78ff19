// Tunes a Llama to a text: trains low-rank adapters (train/nn/low_rank.h) to predict each next token of it. The weights stay
// as they are.
//
//   MESHWORK_ASSIGN_OR_RETURN(FineTuned tuned, FineTune(config, mesh, "model", tokenizer.Encode(text), {.steps = 200}));
//   SaveAdapters(tuned.session, "adapters", …);                            // examples/llama/adapters.h
//
// Thread safety: one call at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/llama/adapters.h"
#include "examples/llama/llama_config.h"
#include "examples/llama/text_loss.h"
#include "meshwork/train.h"

namespace meshwork {

struct FineTuneOptions {
  LlamaAdapters adapters;
  TextLossOptions text;  // texts per step
  int64_t steps = 100;
  double rate = 1e-4;           // of Adam
  SessionOptions session = {};  // its seed is that of the adapters and of the order of the texts, too
  std::vector<CallbackPtr> callbacks = {};  // of Fit
};

// The program of a step: that of AddTextLoss, with adapters that are trained.
struct FineTuneProgram {
  Graph graph;
  LowRankAdapters adapters;
};
// Errors: options out of range. Those of the program itself are in graph.status().
absl::StatusOr<FineTuneProgram> MakeFineTuneProgram(const LlamaConfig& config, const Mesh& mesh,
                                                    const FineTuneOptions& options);

struct FineTuned {
  Session session;
  LowRankAdapters adapters;
  History history;
};
// `dir` has the weights. The text is cut into parts of `length` tokens; each step takes `batch` of them, drawn without
// repetition until fewer are left. All domains call it alike. Errors: options out of range; a text that is shorter than a
// batch; tokens that the model does not have; those of Session::Create, LoadWeights and Fit.
absl::StatusOr<FineTuned> FineTune(const LlamaConfig& config, const Mesh& mesh, const std::string& dir,
                                   std::span<const int32_t> text, const FineTuneOptions& options = {});

}  // namespace meshwork
