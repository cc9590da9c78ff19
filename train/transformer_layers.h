// Layers of transformers. Like those of layers.h, they are variables with a name, and the ops that use them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/train/initializers.h"
#include "meshwork/train/layers.h"

namespace meshwork {

struct EmbeddingOptions {
  LayoutSpec layout = {UNSHARDED,
                       UNSHARDED};  // of [tokens, units]; cut along tokens, devices look up their own
  DType dtype = F32;
  Gathering gather = Gathering::kWithinBudget;
  std::optional<Initializer> initializer = {};  // normal, with standard deviation 0.02
};

// y = the rows of a table that x names; x: integers [..] in [0, tokens) -> y: [.., units]. Variable
// "name/table".
//
//   Embedding embedding(g, "embedding", 256, 700, {.layout = {"model", UNSHARDED}});
//   Value h = embedding(tokens);
class Embedding {
 public:
  Embedding(Graph& graph, const std::string& name, int64_t tokens, int64_t units,
            const EmbeddingOptions& options = {}, CallSite loc = CallSite::Current());
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

  const Variable& table() const { return table_; }

 private:
  Variable table_;
};

struct RmsNormLayerOptions {
  LayoutSpec layout = {UNSHARDED};  // of scale, [units]
  DType dtype = F32;
  Gathering gather = Gathering::kWithinBudget;
  double epsilon = 1e-5;
};

// y = RmsNorm(x, scale); x: [.., units]. Variable "name/scale", all ones at first.
class RmsNormLayer {
 public:
  RmsNormLayer(Graph& graph, const std::string& name, int64_t units, const RmsNormLayerOptions& options = {},
               CallSite loc = CallSite::Current());
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

  const Variable& scale() const { return scale_; }

 private:
  Variable scale_;
  double epsilon_;
};

struct MultiHeadAttentionOptions {
  bool causal = true;
  bool rotary = false;                           // turn queries and keys by position (RotaryPositions)
  DimSpec heads = UNSHARDED;                     // the sharding of the heads, in kernels and result
  std::optional<LayoutSpec> attend_layout = {};  // of q, k and v, [b,s,heads,head], where they meet
  bool ring = false;                             // AttentionOptions::ring
  DType dtype = F32;
  Gathering gather = Gathering::kWithinBudget;      // of the kernels
  std::optional<Initializer> out_initializer = {};  // of the last kernel; Glorot uniform, like the others
};

// y = Attention(x·query, x·key, x·value) · out, head by head; x: [b,s,units] -> y: [b,s,units]. Variables
// "name/query", "name/key", "name/value" and "name/out", each [units, units] without a bias.
//
//   MultiHeadAttention attention(g, "attention", 256, 8, {.heads = "model"});
//   Value h = x + attention(norm(x));
//
// Errors (recorded): units that heads do not divide.
class MultiHeadAttention {
 public:
  MultiHeadAttention(Graph& graph, const std::string& name, int64_t units, int64_t heads,
                     const MultiHeadAttentionOptions& options = {}, CallSite loc = CallSite::Current());
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

 private:
  Value ByHeads(const Value& x, const Variable& kernel) const;

  int64_t heads_;
  MultiHeadAttentionOptions options_;
  Variable query_, key_, value_, out_;
};

struct FeedForwardOptions {
  DimSpec hidden = UNSHARDED;  // the sharding of the hidden units
  DType dtype = F32;
  Gathering gather = Gathering::kWithinBudget;
  std::optional<Initializer> out_initializer = {};  // of the second kernel
};

// y = Gelu(x · in + bias) · out + bias; x: [.., units] -> y: [.., units], with `hidden` hidden units and the
// tanh form of GELU. Variables "name/in/kernel", "name/in/bias", "name/out/kernel" and "name/out/bias".
class FeedForward {
 public:
  FeedForward(Graph& graph, const std::string& name, int64_t units, int64_t hidden,
              const FeedForwardOptions& options = {}, CallSite loc = CallSite::Current());
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

 private:
  Dense in_, out_;
};

}  // namespace meshwork
