#include "meshwork/train/transformer_layers.h"

#include "fmt/format.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

Embedding::Embedding(Graph& graph, const std::string& name, int64_t tokens, int64_t units,
                     const EmbeddingOptions& options, CallSite loc)
    : table_(graph.Var(name + "/table",
                       options.initializer.value_or(NormalRandom({tokens, units}, 0, 0.02, options.dtype)),
                       options.layout, {.gather = options.gather}, loc)) {}

Value Embedding::operator()(const Value& x, CallSite loc) const { return Gather({table_, loc}, x, 0); }

RmsNormLayer::RmsNormLayer(Graph& graph, const std::string& name, int64_t units,
                           const RmsNormLayerOptions& options, CallSite loc)
    : scale_(graph.Var(name + "/scale", Filled(1, {units}, options.dtype), options.layout,
                       {.gather = options.gather}, loc)),
      epsilon_(options.epsilon) {}

Value RmsNormLayer::operator()(const Value& x, CallSite loc) const {
  return RmsNorm({x, loc}, scale_, epsilon_);
}

MultiHeadAttention::MultiHeadAttention(Graph& graph, const std::string& name, int64_t units, int64_t heads,
                                       const MultiHeadAttentionOptions& options, CallSite loc)
    : heads_(heads), options_(options) {
  if (heads < 1 || units % heads != 0) {
    graph.RecordError(
        fmt::format("{}: {} units are not divided by {} heads.", graph.Describe(name, loc), units, heads));
    return;
  }
  auto kernel = [&](const char* which, const LayoutSpec& layout, std::optional<Initializer> start = {}) {
    return graph.Var(fmt::format("{}/{}", name, which),
                     start.value_or(GlorotUniform({units, units}, options.dtype)), layout,
                     {.gather = options.gather}, loc);
  };
  const LayoutSpec by_columns = {UNSHARDED, options.heads}, by_rows = {options.heads, UNSHARDED};
  query_ = kernel("query", by_columns);
  key_ = kernel("key", by_columns);
  value_ = kernel("value", by_columns);
  out_ = kernel("out", by_rows, options.out_initializer);
}

Value MultiHeadAttention::ByHeads(const Value& x, const Variable& kernel) const {
  const Value flat = MatMul(x, kernel);
  if (!flat.valid()) return {};
  const Shape& shape = flat.shape();
  return Reshape(flat, {shape[0], shape[1], heads_, shape[2] / heads_});
}

Value MultiHeadAttention::operator()(const Value& x, CallSite loc) const {
  if (!x.valid() || !out_.valid()) return {};
  if (x.rank() != 3) {
    x.graph()->RecordError(fmt::format("{}: x is {}; it must be [b,s,units].",
                                       x.graph()->Describe("multi_head_attention", loc),
                                       x.type().ToString()));
    return {};
  }
  const LocationScope scope(*x.graph(), loc);
  auto to_meet = [&](const Value& v) {
    return options_.attend_layout.has_value() ? Relayout(v, *options_.attend_layout) : v;
  };
  auto placed = [&](const Value& v) { return options_.rotary ? RotaryPositions({v, loc}) : v; };
  const Value q = to_meet(placed(ByHeads(x, query_))), k = to_meet(placed(ByHeads(x, key_)));
  const Value y =
      Attention({q, loc}, k, to_meet(ByHeads(x, value_)), {.causal = options_.causal, .ring = options_.ring});
  if (!y.valid()) return {};
  return MatMul(Reshape(y, x.shape()), out_);
}

FeedForward::FeedForward(Graph& graph, const std::string& name, int64_t units, int64_t hidden,
                         const FeedForwardOptions& options, CallSite loc)
    : in_(graph, name + "/in", units, hidden,
          {.kernel_layout = {UNSHARDED, options.hidden},
           .bias_layout = {options.hidden},
           .dtype = options.dtype,
           .gather = options.gather},
          loc),
      out_(graph, name + "/out", hidden, units,
           {.kernel_layout = {options.hidden, UNSHARDED},
            .dtype = options.dtype,
            .gather = options.gather,
            .kernel_initializer = options.out_initializer},
           loc) {}

Value FeedForward::operator()(const Value& x, CallSite loc) const {
  return out_(Gelu({in_(x, loc), loc}, GeluForm::kTanh), loc);
}

}  // namespace meshwork
