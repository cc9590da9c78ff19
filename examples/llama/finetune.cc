#include "examples/llama/finetune.h"

#include <algorithm>
#include <utility>

#include "examples/llama/llama.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kMostEpochs = 10;  // so many lines about the loss

// Epochs of the same number of steps, of which Fit says how they ended.
int64_t EpochsOf(int64_t steps) {
  int64_t epochs = std::min(steps, kMostEpochs);
  while (steps % epochs != 0) --epochs;
  return epochs;
}

}  // namespace

absl::StatusOr<FineTuneProgram> MakeFineTuneProgram(const LlamaConfig& config, const Mesh& mesh,
                                                    const FineTuneOptions& options) {
  if (options.steps < 1) return InvalidArgument("steps={}; give 1 or more.", options.steps);
  MESHWORK_ASSIGN_OR_RETURN(const LowRankOptions low_rank, LowRankOptionsOf(options.adapters, config));
  Graph g(mesh);
  g.name = "finetune";
  MESHWORK_ASSIGN_OR_RETURN(const Value loss, AddTextLoss(g, config, options.text));
  LowRankAdapters adapters = AddLowRankAdapters(g, low_rank);
  Adam({.learning_rate = options.rate}).Minimize(loss, adapters.variables);
  return FineTuneProgram{std::move(g), std::move(adapters)};
}

absl::StatusOr<FineTuned> FineTune(const LlamaConfig& config, const Mesh& mesh, const std::string& dir,
                                   std::span<const int32_t> text, const FineTuneOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(FineTuneProgram program, MakeFineTuneProgram(config, mesh, options));
  MESHWORK_ASSIGN_OR_RETURN(const Pipeline parts, TextBatches(config, text, options.text,
                                                              static_cast<uint64_t>(options.session.seed)));
  MESHWORK_ASSIGN_OR_RETURN(const auto stored,
                            StoredInBlocks(program.graph, dir, LlamaWeights(config).rules));
  if (!stored.empty())
    return InvalidArgument(
        "{} has weights in blocks, by which no gradients are computed; import the model without --keep-blocks.",
        Quoted(dir));
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
