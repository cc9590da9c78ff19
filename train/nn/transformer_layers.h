// Layers of transformers. Like those of layers.h, they are variables with a name, and the ops that use them. If options
// give no layout, the graph's rules do (Graph::SetLayouts).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/nn/layer_variables.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/nn/precision.h"

namespace meshwork {

struct EmbeddingOptions {
  LayoutSpec layout = {};  // of [tokens, units]; cut along tokens, devices look up their own
  std::optional<DType> dtype = {}, compute = {};  // see layers.h
  Gathering gather = Gathering::kWithinBudget;
  LayerInitializer initializer = NormalRandom(0, 0.02);
};

// y = the rows of a table that x names, cast if `compute` says so; x: integers [..] in [0, tokens) -> y: [.., units].
// Variable "name/table".
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
  Precision precision_;
  Variable table_;
};

struct RmsNormalizationOptions {
  LayoutSpec layout = {};                         // of scale, [units]
  std::optional<DType> dtype = {}, compute = {};  // see layers.h
  Gathering gather = Gathering::kWithinBudget;
  double epsilon = 1e-5;
  LayerInitializer scale_initializer = Filled(1);
};

// y = RmsNorm(x, scale); x: [.., units]. Variable "name/scale", all ones at first.
class RmsNormalization {
 public:
  RmsNormalization(Graph& graph, const std::string& name, int64_t units,
                   const RmsNormalizationOptions& options = {}, CallSite loc = CallSite::Current())
      : RmsNormalization(std::optional(units), graph, name, options, loc) {}
  RmsNormalization(Graph& graph, const std::string& name, const RmsNormalizationOptions& options = {},
                   CallSite loc = CallSite::Current())
      : RmsNormalization(std::nullopt, graph, name, options, loc) {}
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

  const Variable& scale() const { return scale_.Now(); }

 private:
  RmsNormalization(std::optional<int64_t> units, Graph& graph, const std::string& name,
                   const RmsNormalizationOptions& options, CallSite loc);

  Precision precision_;
  internal::LayerVariables<Variable> scale_;
  double epsilon_;
};

struct MultiHeadAttentionOptions {
  bool causal = false;                            // position i sees 0 to i alone
  bool rotary = false;                            // turn queries and keys by position (RotaryPositions)
  DimSpec heads = UNSHARDED;                      // the sharding of the heads, in kernels and result
  std::optional<LayoutSpec> attend_layout = {};   // of q, k and v, [b,s,heads,head], where they meet
  bool ring = false;                              // AttentionOptions::ring
  std::optional<DType> dtype = {}, compute = {};  // see layers.h
  Gathering gather = Gathering::kWithinBudget;    // of the kernels
  LayerInitializer kernel_initializer = GlorotUniform();  // of query, key and value
  LayerInitializer out_initializer = GlorotUniform();     // of the last kernel
};

// y = Attention(x·query, x·key, x·value) · out, head by head; x: [b,s,units] -> y: [b,s,units]. Every position sees all
// s, unless the options say `causal`. Variables "name/query", "name/key", "name/value" and "name/out", each [units,
// units] without a bias.
//
//   MultiHeadAttention attention(g, "attention", 256, 8, {.causal = true, .heads = "model"});
//   Value h = x + attention(norm(x));
//
// Errors (recorded): units that heads do not divide.
class MultiHeadAttention {
 public:
  MultiHeadAttention(Graph& graph, const std::string& name, int64_t units, int64_t heads,
                     const MultiHeadAttentionOptions& options = {}, CallSite loc = CallSite::Current())
      : MultiHeadAttention(std::optional(units), graph, name, heads, options, loc) {}
  MultiHeadAttention(Graph& graph, const std::string& name, int64_t heads,
                     const MultiHeadAttentionOptions& options = {}, CallSite loc = CallSite::Current())
      : MultiHeadAttention(std::nullopt, graph, name, heads, options, loc) {}
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

 private:
  struct Variables {
    Variable query, key, value, out;
  };

  MultiHeadAttention(std::optional<int64_t> units, Graph& graph, const std::string& name, int64_t heads,
                     const MultiHeadAttentionOptions& options, CallSite loc);
  Value ByHeads(const Value& x, const Variable& kernel) const;

  int64_t heads_;
  MultiHeadAttentionOptions options_;
  Precision precision_;
  internal::LayerVariables<Variables> variables_;
};

struct FeedForwardOptions {
  DimSpec hidden = UNSHARDED;                     // the sharding of the hidden units
  std::optional<DType> dtype = {}, compute = {};  // see layers.h
  Gathering gather = Gathering::kWithinBudget;
  LayerInitializer in_initializer = GlorotUniform(), out_initializer = GlorotUniform();  // of both kernels
};

// y = Gelu(x · in + bias) · out + bias; x: [.., units] -> y: [.., units], with `hidden` hidden units and the
// tanh form of GELU. Variables "name/in/kernel", "name/in/bias", "name/out/kernel" and "name/out/bias".
class FeedForward {
 public:
  FeedForward(Graph& graph, const std::string& name, int64_t units, int64_t hidden,
              const FeedForwardOptions& options = {}, CallSite loc = CallSite::Current())
      : FeedForward(std::optional(units), graph, name, hidden, options, loc) {}
  FeedForward(Graph& graph, const std::string& name, int64_t hidden, const FeedForwardOptions& options = {},
              CallSite loc = CallSite::Current())
      : FeedForward(std::nullopt, graph, name, hidden, options, loc) {}
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

 private:
  struct Layers {
    Dense in, out;
  };

  FeedForward(std::optional<int64_t> units, Graph& graph, const std::string& name, int64_t hidden,
              const FeedForwardOptions& options, CallSite loc);

  internal::LayerVariables<Layers> layers_;
};

}  // namespace meshwork
