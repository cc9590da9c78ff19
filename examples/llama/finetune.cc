#include "examples/llama/finetune.h"

#include <algorithm>
#include <utility>

#include "examples/llama/llama.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kMostEpochs = 10;  // so many lines about the loss

absl::Status CheckFineTune(const LlamaConfig& config, const FineTuneOptions& options) {
  if (options.steps < 1 || options.batch < 1)
    return InvalidArgument("steps={}, batch={}; give 1 or more of both.", options.steps, options.batch);
  if (options.length < 1 || options.length > config.positions)
    return InvalidArgument("length={}; the model was made for 1 to {} tokens.", options.length,
                           config.positions);
  return absl::OkStatus();
}

// The parts of a text as examples: tokens and the tokens behind them, i32[n,length] each.
absl::StatusOr<Pipeline> PartsOf(const LlamaConfig& config, std::span<const int32_t> text,
                                 const FineTuneOptions& options) {
  const int64_t tokens = std::ssize(text), least = options.batch * options.length + 1;
  if (tokens < least)
    return InvalidArgument(
        "The text has {} tokens; a batch of {} parts of {} tokens takes {}. Give a longer text, or smaller batches or "
        "parts.",
        tokens, options.batch, options.length, least);
  for (const int32_t token : text)
    if (token < 0 || token >= config.vocabulary)
      return InvalidArgument("Token {}; the model has {} tokens, from 0 on.", token, config.vocabulary);
  const int64_t parts = (tokens - 1) / options.length;
  const auto from = [&](int64_t begin) {
    return Tensor::From<int32_t>({parts, options.length},
                                 {text.begin() + begin, text.begin() + begin + parts * options.length});
  };
  return BatchesOf({{"tokens", from(0)}, {"next", from(1)}},
                   {.batch_size = options.batch,
                    .shuffle_seed = static_cast<uint64_t>(options.session.seed),
                    .drop_remainder = true});
}

// Epochs of the same number of steps, of which Fit says how they ended.
int64_t EpochsOf(int64_t steps) {
  int64_t epochs = std::min(steps, kMostEpochs);
  while (steps % epochs != 0) --epochs;
  return epochs;
}

}  // namespace

absl::StatusOr<FineTuneProgram> MakeFineTuneProgram(const LlamaConfig& config, const Mesh& mesh,
                                                    const FineTuneOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckFineTune(config, options));
  MESHWORK_ASSIGN_OR_RETURN(const LowRankOptions low_rank, LowRankOptionsOf(options.adapters, config));
  Graph g(mesh);
  g.name = "finetune";
  g.SetPrecision(options.precision);
  LayoutRules layouts = LlamaLayouts(config);
  for (const char* input : {"tokens", "next"}) layouts.layouts.push_back({input, {"batch", UNSHARDED}});
  g.SetLayouts(layouts);
  const Value tokens = g.Input("tokens", I32, {options.batch, options.length}),
              next = g.Input("next", I32, {options.batch, options.length});
  const Llama llama(g, config);
  std::vector<AttentionCache> no_caches;
  const Value loss = SparseSoftmaxCrossEntropy(llama.Logits(llama(tokens, no_caches)), next);
  g.Output("loss", loss);
  LowRankAdapters adapters = AddLowRankAdapters(g, low_rank);
  Adam({.learning_rate = options.rate}).Minimize(loss, adapters.variables);
  return FineTuneProgram{std::move(g), std::move(adapters)};
}

absl::StatusOr<FineTuned> FineTune(const LlamaConfig& config, const Mesh& mesh, const std::string& dir,
                                   std::span<const int32_t> text, const FineTuneOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(FineTuneProgram program, MakeFineTuneProgram(config, mesh, options));
  MESHWORK_ASSIGN_OR_RETURN(const Pipeline parts, PartsOf(config, text, options));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(program.graph, options.session));
  MESHWORK_RETURN_IF_ERROR(LoadWeights(session, dir, LlamaWeights(config)).status());
  const int64_t epochs = EpochsOf(options.steps);
  MESHWORK_ASSIGN_OR_RETURN(
      History history,
      Fit(session, parts,
          {.epochs = epochs, .steps_per_epoch = options.steps / epochs, .callbacks = options.callbacks}));
  return FineTuned{std::move(session), std::move(program.adapters), std::move(history)};
}

}  // namespace meshwork
