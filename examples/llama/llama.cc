#include "examples/llama/llama.h"

#include <string>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {

LayoutRules LlamaLayouts(const LlamaConfig& config) {
  const LayoutSpec columns = {UNSHARDED, "model"}, rows = {"model", UNSHARDED};
  LayoutRules rules{.layouts = {{"embedding/table", rows},
                                {"*/attention/query", columns},
                                {"*/attention/key", columns},
                                {"*/attention/value", columns},
                                {"*/attention/out", rows},
                                {"*/feed_forward/in/kernel", columns},
                                {"*/feed_forward/gate/kernel", columns},
                                {"*/feed_forward/out/kernel", rows}},
                    .missing_axes = MissingAxes::kShardNothing};
  if (!config.tied) rules.layouts.push_back({"head/kernel", columns});
  return rules;
}

LoadWeightsOptions LlamaWeights(const LlamaConfig& config) {
  LoadWeightsOptions load{.rules = BlockWeightRules(PublishedBlock::kLlama, "block*", "model.layers.*")};
  load.rules.push_back({.variable = "embedding/table", .tensor = "model.embed_tokens.weight"});
  load.rules.push_back({.variable = "norm/scale", .tensor = "model.norm.weight"});
  load.rules.push_back({.variable = "head/kernel", .tensor = "lm_head.weight", .transpose = true});
  load.rules = WithBlockRules(load.rules);
  load.missing = {"cache/*", "*.lora_[ab]"};
  load.unused = {"*.rotary_emb.inv_freq"};
  if (config.tied) load.unused.push_back("lm_head.weight");
  return load;
}

absl::StatusOr<Graph> InBlocks(Graph graph, const std::vector<QuantizeWeightsOptions>& stored) {
  for (const QuantizeWeightsOptions& weights : stored) {
    absl::StatusOr<QuantizedProgram> program = QuantizeWeights(graph, weights);
    if (!program.ok())
      return InvalidArgument("{} Or take another mesh, or import the model without --keep-blocks.",
                             MessageOf(program.status()));
    graph = std::move(program->graph);
  }
  return graph;
}

Llama::Llama(Graph& graph, const LlamaConfig& config)
    : embedding_(graph, "embedding", config.vocabulary, config.units, {.initializer = Zeros()}),
      norm_(graph, "norm", config.units, {.epsilon = config.epsilon}) {
  const TransformerBlockOptions block{.attention = {.causal = true,
                                                    .rotary = config.rotary,
                                                    .kv_heads = config.kv_heads,
                                                    .head = config.head,
                                                    .bias = config.bias,
                                                    .out_bias = config.out_bias,
                                                    .window = config.window,
                                                    .kernel_initializer = Zeros(),
                                                    .out_initializer = Zeros()},
                                      .feed_forward = {.activation = Silu,
                                                       .gated = true,
                                                       .bias = false,
                                                       .in_initializer = Zeros(),
                                                       .out_initializer = Zeros()},
                                      .norm = BlockNorm::kRms,
                                      .epsilon = config.epsilon};
  for (int64_t i = 0; i < config.layers; ++i)
    blocks_.emplace_back(graph, fmt::format("block{}", i), config.units, config.heads, config.hidden, block);
  if (!config.tied)
    head_.emplace(graph, "head", config.units, config.vocabulary,
                  DenseOptions{.kernel_initializer = Zeros(), .bias = false});
}

Value Llama::operator()(const Value& tokens, std::vector<AttentionCache>& caches) const {
  Value x = embedding_(tokens);
  for (size_t i = 0; i < blocks_.size(); ++i)
    x = blocks_[i](x, {.cache = caches.empty() ? nullptr : &caches[i]});
  return norm_(x);
}

Value Llama::Logits(const Value& h) const {
  return head_.has_value() ? (*head_)(h)
                           : MatMul(h, InDType(embedding_.table(), h.dtype()), false, /*transpose_b=*/true);
}

}  // namespace meshwork
