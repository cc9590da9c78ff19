#include "examples/llama/llama.h"

#include <string>

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
                                {"*/feed_forward/out/kernel", rows},
                                {"cache/*", {"batch", UNSHARDED, "model", UNSHARDED}}},
                    .missing_axes = MissingAxes::kShardNothing};
  if (!config.tied) rules.layouts.push_back({"head/kernel", columns});
  return rules;
}

LoadWeightsOptions LlamaWeights(const LlamaConfig& config) {
  LoadWeightsOptions load;
  const auto rule = [&](const std::string& variable, const std::string& tensor, bool transpose = false) {
    load.rules.push_back({.variable = variable, .tensor = tensor, .transpose = transpose});
  };
  rule("embedding/table", "model.embed_tokens.weight");
  rule("norm/scale", "model.norm.weight");
  rule("head/kernel", "lm_head.weight", true);
  const std::string of = "model.layers.*.";
  for (const auto& [ours, theirs] : {std::pair("query", "q"), {"key", "k"}, {"value", "v"}, {"out", "o"}}) {
    rule(fmt::format("block*/attention/{}", ours), fmt::format("{}self_attn.{}_proj.weight", of, theirs),
         true);
    rule(fmt::format("block*/attention/{}_bias", ours), fmt::format("{}self_attn.{}_proj.bias", of, theirs));
  }
  for (const auto& [ours, theirs] : {std::pair("gate", "gate"), {"in", "up"}, {"out", "down"}})
    rule(fmt::format("block*/feed_forward/{}/kernel", ours), fmt::format("{}mlp.{}_proj.weight", of, theirs),
         true);
  rule("block*/norm1/scale", of + "input_layernorm.weight");
  rule("block*/norm2/scale", of + "post_attention_layernorm.weight");
  load.missing = {"cache/*"};
  load.unused = {"*.rotary_emb.inv_freq"};
  if (config.tied) load.unused.push_back("lm_head.weight");
  return load;
}

Llama::Llama(Graph& graph, const LlamaConfig& config)
    : embedding_(graph, "embedding", config.vocabulary, config.units, {.initializer = Zeros()}),
      norm_(graph, "norm", config.units, {.epsilon = config.epsilon, .scale_initializer = Zeros()}) {
  const RmsNormalizationOptions norm{.epsilon = config.epsilon, .scale_initializer = Zeros()};
  const MultiHeadAttentionOptions attention{.causal = true,
                                            .rotary = config.rotary,
                                            .kv_heads = config.kv_heads,
                                            .head = config.head,
                                            .bias = config.bias,
                                            .out_bias = config.out_bias,
                                            .window = config.window,
                                            .kernel_initializer = Zeros(),
                                            .out_initializer = Zeros()};
  const FeedForwardOptions feed_forward{.activation = Silu,
                                        .gated = true,
                                        .bias = false,
                                        .in_initializer = Zeros(),
                                        .out_initializer = Zeros()};
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string name = fmt::format("block{}/", i);
    blocks_.push_back({RmsNormalization(graph, name + "norm1", config.units, norm),
                       MultiHeadAttention(graph, name + "attention", config.units, config.heads, attention),
                       RmsNormalization(graph, name + "norm2", config.units, norm),
                       FeedForward(graph, name + "feed_forward", config.units, config.hidden, feed_forward)});
  }
  if (!config.tied)
    head_.emplace(graph, "head", config.units, config.vocabulary,
                  DenseOptions{.kernel_initializer = Zeros(), .bias = false});
}

Value Llama::operator()(const Value& tokens, std::vector<AttentionCache>& caches) const {
  Value x = embedding_(tokens);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    x = x + block.attention(block.norm1(x), {.cache = caches.empty() ? nullptr : &caches[i]});
    x = x + block.feed_forward(block.norm2(x));
  }
  return norm_(x);
}

Value Llama::Logits(const Value& h) const {
  return head_.has_value() ? (*head_)(h) : MatMul(h, embedding_.table(), false, /*transpose_b=*/true);
}

}  // namespace meshwork
