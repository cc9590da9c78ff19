// Layers of transformers. Like those of layers.h, they are variables with a name, and the ops that use them. If options
// give no layout, the graph's rules do (Graph::SetLayouts).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/ops/attention.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/nn/layer_variables.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/nn/norm_layers.h"
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
  bool causal = false;                       // position i sees 0 to i alone
  std::optional<RotaryOptions> rotary = {};  // turn queries and keys by position (ops/attention.h)
  int64_t kv_heads =
      0;  // heads of keys and values, which divide those of queries and are shared by them; 0: as many
  int64_t head = 0;                     // dims of a head; 0: units / heads
  int64_t memory_units = 0;             // of AttendTo::memory; 0: as x
  bool bias = false, out_bias = false;  // of query, key and value; of out
  std::optional<double> scale = {};     // AttentionOptions, here and below
  int64_t window = 0;
  double soft_cap = 0;
  double dropout = 0;                            // of the shares, in training (Dropout "name/dropout")
  DimSpec heads = UNSHARDED;                     // the sharding of the heads, in kernels and result
  std::optional<LayoutSpec> attend_layout = {};  // of q, k and v, [b,s,heads,head], where they meet
  bool ring = false;
  std::optional<DType> dtype = {}, compute = {};          // see layers.h
  Gathering gather = Gathering::kWithinBudget;            // of the kernels
  LayerInitializer kernel_initializer = GlorotUniform();  // of query, key and value
  LayerInitializer out_initializer = GlorotUniform();     // of the last kernel
};

// Keys and values of the steps that came before, of up to c steps per row.
struct AttentionCache {
  Value keys, values;  // [b,c,kv_heads,head], in a dtype of their own
  Value places;        // i32[b]: how many steps of each row are there; the next one goes to this place
};

// What a call of MultiHeadAttention attends to, besides x.
struct AttendTo {
  // [b,t,memory_units]: keys and values are made of it and not of x (cross-attention); not with `rotary`.
  Value memory = {};
  Value mask = {};  // AttentionOptions::mask
  Value seen = {};  // AttentionOptions::seen
  // i32 [s] or [b,s]: the positions of x's steps, for `rotary`; 0, 1, … if there are none.
  Value positions = {};
  // The steps of each row go on behind those in the cache. Their keys and values are written to the row's places
  // (DynamicUpdateSlice), and *cache becomes what then is there. A query sees the keys up to its own, as if `causal` were
  // set; its position is its place. The places stay: add s to them once all layers were called. REQUIRES, of each row:
  // places + s <= c; otherwise the last places are written again. What is written behind the end of a short row is
  // overwritten by its later steps, before they see it.
  AttentionCache* cache = nullptr;
};

// y = Attention(x·query, x·key, x·value) · out, head by head; x: [b,s,units] -> y: [b,s,units]. Every position sees all
// s, unless the options say `causal`. Variables "name/query" [units,heads·head], "name/key" and "name/value"
// [units,kv_heads·head] and "name/out" [heads·head,units]; with biases "name/query_bias", …, "name/out_bias".
//
//   MultiHeadAttention attention(g, "attention", 256, 8, {.causal = true, .heads = "model"});
//   Value h = x + attention(norm(x));
//
// Errors (recorded): units that heads do not divide, without `head`; heads that kv_heads do not divide; a memory with
// `rotary`; memory, seen or positions beside a cache; a cache of other sizes; those of Attention and RotaryPositions.
class MultiHeadAttention {
 public:
  MultiHeadAttention(Graph& graph, const std::string& name, int64_t units, int64_t heads,
                     const MultiHeadAttentionOptions& options = {}, CallSite loc = CallSite::Current())
      : MultiHeadAttention(std::optional(units), graph, name, heads, options, loc) {}
  MultiHeadAttention(Graph& graph, const std::string& name, int64_t heads,
                     const MultiHeadAttentionOptions& options = {}, CallSite loc = CallSite::Current())
      : MultiHeadAttention(std::nullopt, graph, name, heads, options, loc) {}
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const {
    return (*this)(x, AttendTo(), loc);
  }
  Value operator()(const Value& x, const AttendTo& to, CallSite loc = CallSite::Current()) const;

 private:
  // Of a projection; the bias is invalid where there is none.
  struct Projection {
    Variable kernel, bias;
  };
  struct Variables {
    Projection query, key, value, out;
  };

  MultiHeadAttention(std::optional<int64_t> units, Graph& graph, const std::string& name, int64_t heads,
                     const MultiHeadAttentionOptions& options, CallSite loc);
  Value Project(const Value& x, const Projection& by) const;
  Value ByHeads(const Value& x, const Projection& by, int64_t heads) const;
  // Whether a call may have these operands; records a mistake if not.
  bool Check(const Value& x, const AttendTo& to, CallSite loc) const;

  std::string name_;
  int64_t heads_, kv_heads_;
  MultiHeadAttentionOptions options_;
  Precision precision_;
  internal::LayerVariables<Variables> variables_;
  std::optional<Dropout> dropout_;
};

struct FeedForwardOptions {
  DimSpec hidden = UNSHARDED;  // the sharding of the hidden units
  Activation activation = {};  // the tanh form of GELU, if there is none
  bool gated = false;          // y = (activation(x · gate) * (x · in)) · out (Shazeer, arXiv 2002.05202)
  bool bias = true;
  std::optional<DType> dtype = {}, compute = {};  // see layers.h
  Gathering gather = Gathering::kWithinBudget;
  LayerInitializer in_initializer = GlorotUniform(),
                   out_initializer = GlorotUniform();  // of in and gate, of out
};

// y = activation(x · in + bias) · out + bias; x: [.., units] -> y: [.., units], with `hidden` hidden units. Variables
// "name/in/kernel" and "name/out/kernel", with `gated` "name/gate/kernel", and with `bias` "name/in/bias", ….
//
//   FeedForward(g, "mlp", 1536, {.hidden = "model", .activation = Silu, .gated = true, .bias = false})  // as in Llama
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
    std::optional<Dense> gate;
  };

  FeedForward(std::optional<int64_t> units, Graph& graph, const std::string& name, int64_t hidden,
              const FeedForwardOptions& options, CallSite loc);

  Activation activation_;
  internal::LayerVariables<Layers> layers_;
};

}  // namespace meshwork
