#include "examples/llama/text_loss.h"

#include <cmath>
#include <utility>
#include <vector>

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
                   {.batch_size = options.batch, .shuffle_seed = shuffle_seed, .drop_remainder = true});
}

absl::StatusOr<double> PerplexityOf(const LlamaConfig& config, const Mesh& mesh, const std::string& dir,
                                    std::span<const int32_t> text, const PerplexityOptions& options) {
  Graph graph(mesh);
  graph.name = "perplexity";
  MESHWORK_RETURN_IF_ERROR(AddTextLoss(graph, config, options.text).status());
  MESHWORK_ASSIGN_OR_RETURN(const Pipeline batches, TextBatches(config, text, options.text));
  const LoadWeightsOptions load = LlamaWeights(config);
  MESHWORK_ASSIGN_OR_RETURN(graph, InStoredBlocks(std::move(graph), dir, load));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, options.session));
  MESHWORK_RETURN_IF_ERROR(LoadWeights(session, dir, load).status());
  MESHWORK_ASSIGN_OR_RETURN(const Metrics metrics, Evaluate(session, batches));
  return std::exp(metrics.at("loss"));
}

}  // namespace meshwork
