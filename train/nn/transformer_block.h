// TransformerBlock: attention and a feed-forward network, each beside a residual. A transformer is an embedding, some of
// these blocks, a norm and a Dense.
//
//   for (int i = 0; i < 12; ++i)
//     x = TransformerBlock(g, fmt::format("block{}", i), /*heads=*/8, /*hidden=*/1024, {.attention = {.causal = true}})(x);
//
// As in published models:
//
//   {.attention = {.rotary = RotaryOptions(), .kv_heads = 3},                             // Llama
//    .feed_forward = {.activation = Silu, .gated = true, .bias = false}, .norm = BlockNorm::kRms}
//   {.attention = {.bias = true, .out_bias = true},                                       // BERT
//    .feed_forward = {.activation = [](const Operand& x) { return Gelu(x); }}, .norm_first = false}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "meshwork/ir/graph.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/nn/norm_layers.h"
#include "meshwork/train/nn/precision.h"
#include "meshwork/train/nn/transformer_layers.h"

namespace meshwork {

enum class BlockNorm : uint8_t { kLayer, kRms };  // LayerNormalization, RmsNormalization

struct TransformerBlockOptions {
  MultiHeadAttentionOptions attention = {};
  FeedForwardOptions feed_forward = {};
  BlockNorm norm = BlockNorm::kLayer;
  bool norm_first = true;  // x + f(norm(x)); if not, norm(x + f(x)), as in the first transformers and in BERT
  double epsilon = 1e-5;   // of the norms
  // In training: of elements of f's result (Vaswani et al., arXiv 1706.03762, section 5.4), and of the whole of it for an
  // example (drop path; Huang et al., ECCV 2016).
  double dropout = 0, drop_path = 0;
  std::optional<DType> dtype = {},
                       compute = {};  // of what attention and feed_forward leave open; see layers.h
};

// x: [b,s,units] -> [b,s,units], by h = x + f(norm1(x)) and h + g(norm2(h)), where f is MultiHeadAttention with `heads` heads
// and g is FeedForward with `hidden` hidden units. Variables "name/norm1/…", "name/attention/…", "name/norm2/…" and
// "name/feed_forward/…", as these layers have them. Errors (recorded): those of these layers and of Dropout.
class TransformerBlock {
 public:
  TransformerBlock(Graph& graph, const std::string& name, int64_t units, int64_t heads, int64_t hidden,
                   const TransformerBlockOptions& options = {}, CallSite loc = CallSite::Current())
      : TransformerBlock(std::optional(units), graph, name, heads, hidden, options, loc) {}
  TransformerBlock(Graph& graph, const std::string& name, int64_t heads, int64_t hidden,
                   const TransformerBlockOptions& options = {}, CallSite loc = CallSite::Current())
      : TransformerBlock(std::nullopt, graph, name, heads, hidden, options, loc) {}
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const {
    return (*this)(x, AttendTo(), loc);
  }
  // to: what attention attends to, besides x; its cache, for example.
  Value operator()(const Value& x, const AttendTo& to, CallSite loc = CallSite::Current()) const;

 private:
  using Norm = std::variant<LayerNormalization, RmsNormalization>;

  TransformerBlock(std::optional<int64_t> units, Graph& graph, const std::string& name, int64_t heads,
                   int64_t hidden, const TransformerBlockOptions& options, CallSite loc);
  // x + branch(x), with the norm and what is dropped.
  template <typename Branch>
  Value Beside(const Value& x, const Norm& norm, CallSite loc, const Branch& branch) const;

  std::string scope_;
  bool norm_first_;
  Norm norm1_;
  MultiHeadAttention attention_;
  Norm norm2_;
  FeedForward feed_forward_;
  std::optional<Dropout> dropout_, drop_path_;
};

}  // namespace meshwork
