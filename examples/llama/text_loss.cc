#include "examples/llama/text_loss.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "examples/llama/adapters.h"
#include "examples/llama/llama.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

absl::Status CheckTextLoss(const LlamaConfig& config, const TextLossOptions& options) {
  if (options.batch < 1) return InvalidArgument("batch={}; give 1 or more.", options.batch);
  if (options.length < 1 || options.length > config.positions)
    return InvalidArgument("length={}; the model was made for 1 to {} tokens.", options.length,
                           config.positions);
  return absl::OkStatus();
}

// The number of whole parts, of which the last one has a token behind it.
int64_t PartsOf(std::span<const int32_t> text, const TextLossOptions& options) {
  return std::max<int64_t>(std::ssize(text) - 1, 0) / options.length;
}

}  // namespace

absl::StatusOr<Value> AddTextLoss(Graph& g, const LlamaConfig& config, const TextLossOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckTextLoss(config, options));
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
  return loss;
}

absl::StatusOr<Pipeline> TextBatches(const LlamaConfig& config, std::span<const int32_t> text,
                                     const TextLossOptions& options, std::optional<uint64_t> shuffle_seed) {
  MESHWORK_RETURN_IF_ERROR(CheckTextLoss(config, options));
  const int64_t parts = PartsOf(text, options);
  const int64_t least = shuffle_seed.has_value() ? options.batch : 1;
  if (parts < least)
    return InvalidArgument(
        "The text has {} tokens: {} parts of {} tokens, and one more; {} takes {} parts. Give a longer text, or shorter "
        "parts.",
        text.size(), parts, options.length, shuffle_seed.has_value() ? "a batch" : "a perplexity", least);
  for (const int32_t token : text)
    if (token < 0 || token >= config.vocabulary)
      return InvalidArgument("Token {}; the model has {} tokens, from 0 on.", token, config.vocabulary);
  const auto from = [&](int64_t begin) {
    return Tensor::From<int32_t>({parts, options.length},
                                 {text.begin() + begin, text.begin() + begin + parts * options.length});
  };
  return BatchesOf({{"tokens", from(0)}, {"next", from(1)}}, {.batch_size = options.batch,
                                                              .shuffle_seed = shuffle_seed,
                                                              .drop_remainder = shuffle_seed.has_value()});
}

absl::StatusOr<Perplexity> PerplexityOf(const LlamaConfig& config, const Mesh& mesh, const std::string& dir,
                                        std::span<const int32_t> text, const PerplexityOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const Pipeline batches, TextBatches(config, text, options.text));
  Graph graph(mesh);
  graph.name = "perplexity";
  MESHWORK_RETURN_IF_ERROR(AddTextLoss(graph, config, options.text).status());
  if (!options.adapters.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(const LlamaAdapters adapters, LlamaAdapters::Load(options.adapters));
    MESHWORK_ASSIGN_OR_RETURN(const LowRankOptions low_rank, LowRankOptionsOf(adapters, config));
    AddLowRankAdapters(graph, low_rank);
  }
  const LoadWeightsOptions load = LlamaWeights(config);
  MESHWORK_ASSIGN_OR_RETURN(const auto stored, StoredInBlocks(graph, dir, load.rules));
  MESHWORK_ASSIGN_OR_RETURN(graph, InBlocks(std::move(graph), stored));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, options.session));
  MESHWORK_RETURN_IF_ERROR(LoadWeights(session, dir, load).status());
  if (!options.adapters.empty()) MESHWORK_RETURN_IF_ERROR(LoadAdapters(session, options.adapters, config));
  MESHWORK_ASSIGN_OR_RETURN(const Metrics metrics, Evaluate(session, batches));
  return Perplexity{std::exp(metrics.at("loss")), PartsOf(text, options.text) * options.text.length};
}

}  // namespace meshwork
