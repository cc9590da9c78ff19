#include "meshwork/train/nn/published_weights.h"

#include <span>

#include "fmt/format.h"

namespace meshwork {
namespace {

// Of a layer in a TransformerBlock.
struct BlockNames {
  const char* weight;  // a kernel, which is the tensor's "….weight" with its dims exchanged; or a scale
  const char* bias;    // the tensor's "….bias"; null if there is none
  const char* tensor;
};

constexpr BlockNames kLlama[] = {
    {"attention/query", "attention/query_bias", "self_attn.q_proj"},
    {"attention/key", "attention/key_bias", "self_attn.k_proj"},
    {"attention/value", "attention/value_bias", "self_attn.v_proj"},
    {"attention/out", "attention/out_bias", "self_attn.o_proj"},
    {"feed_forward/gate/kernel", "feed_forward/gate/bias", "mlp.gate_proj"},
    {"feed_forward/in/kernel", "feed_forward/in/bias", "mlp.up_proj"},
    {"feed_forward/out/kernel", "feed_forward/out/bias", "mlp.down_proj"},
    {"norm1/scale", nullptr, "input_layernorm"},
    {"norm2/scale", nullptr, "post_attention_layernorm"},
};

constexpr BlockNames kBert[] = {
    {"attention/query", "attention/query_bias", "attention.self.query"},
    {"attention/key", "attention/key_bias", "attention.self.key"},
    {"attention/value", "attention/value_bias", "attention.self.value"},
    {"attention/out", "attention/out_bias", "attention.output.dense"},
    {"norm1/scale", "norm1/offset", "attention.output.LayerNorm"},
    {"feed_forward/in/kernel", "feed_forward/in/bias", "intermediate.dense"},
    {"feed_forward/out/kernel", "feed_forward/out/bias", "output.dense"},
    {"norm2/scale", "norm2/offset", "output.LayerNorm"},
};

}  // namespace

std::vector<WeightRule> BlockWeightRules(PublishedBlock kind, const std::string& block,
                                         const std::string& published) {
  std::vector<WeightRule> rules;
  const std::span<const BlockNames> all = kind == PublishedBlock::kLlama ? std::span<const BlockNames>(kLlama)
                                                                         : std::span<const BlockNames>(kBert);
  for (const BlockNames& names : all) {
    const std::string weight = fmt::format("{}/{}", block, names.weight);
    rules.push_back({.variable = weight,
                     .tensor = fmt::format("{}.{}.weight", published, names.tensor),
                     .transpose = !weight.ends_with("/scale")});
    if (names.bias == nullptr) continue;
    rules.push_back({.variable = fmt::format("{}/{}", block, names.bias),
                     .tensor = fmt::format("{}.{}.bias", published, names.tensor)});
  }
  return rules;
}

}  // namespace meshwork
