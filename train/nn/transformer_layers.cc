#include "meshwork/train/nn/transformer_layers.h"

#include "fmt/format.h"
#include "meshwork/ir/name_scope.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
Embedding::Embedding(Graph& graph, const std::string& name, int64_t tokens, int64_t units,
                     const EmbeddingOptions& options, CallSite loc)
    : precision_(LayerPrecision(graph, options.dtype, options.compute)),
      table_(graph.Var(name + "/table", options.initializer.For({tokens, units}, precision_.variables),
                       options.layout, {.gather = options.gather}, loc)) {}

Value Embedding::operator()(const Value& x, CallSite loc) const {
  if (!x.valid()) return {};
  const NameScope name_scope = NameScope::Of(table_, x);
  const LocationScope scope(*x.graph(), loc);
  return ToCompute(Gather({table_, loc}, x, 0), precision_);
}

RmsNormalization::RmsNormalization(std::optional<int64_t> units, Graph& graph, const std::string& name,
                                   const RmsNormalizationOptions& options, CallSite loc)
    : precision_(LayerPrecision(graph, options.dtype, options.compute)),
      scale_(graph, units,
             [name, options, loc, dtype = precision_.variables](Graph& graph, int64_t units) {
               return graph.Var(name + "/scale", options.scale_initializer.For({units}, dtype),
                                options.layout, {.gather = options.gather}, loc);
             }),
      epsilon_(options.epsilon) {}

Value RmsNormalization::operator()(const Value& x, CallSite loc) const {
  if (!x.valid()) return {};
  const Variable& scale_variable = scale_.For(x);
  const NameScope name_scope = NameScope::Of(scale_variable, x);
  const LocationScope scope(*x.graph(), loc);
  return RmsNorm({ToCompute(x, precision_), loc}, scale_variable, epsilon_);
}

MultiHeadAttention::MultiHeadAttention(std::optional<int64_t> units, Graph& graph, const std::string& name,
                                       int64_t heads, const MultiHeadAttentionOptions& options, CallSite loc)
    : heads_(heads),
      options_(options),
      precision_(LayerPrecision(graph, options.dtype, options.compute)),
      variables_(
          graph, units,
          [name, heads, options, loc, dtype = precision_.variables](Graph& graph, int64_t units) {
            if (heads < 1 || units % heads != 0) {
              graph.RecordError(fmt::format(
                  "{}: {} units are not divided by {} heads; give units that are a multiple of the heads.",
                  graph.Describe(name, loc), units, heads));
              return Variables();
            }
            const auto kernel = [&](const char* which, const LayoutSpec& layout,
                                    const LayerInitializer& start) {
              return graph.Var(fmt::format("{}/{}", name, which), start.For({units, units}, dtype), layout,
                               {.gather = options.gather}, loc);
            };
            const LayoutSpec by_columns = UnlessWhole({UNSHARDED, options.heads}),
                             by_rows = UnlessWhole({options.heads, UNSHARDED});
            Variables made;
            made.query = kernel("query", by_columns, options.kernel_initializer);
            made.key = kernel("key", by_columns, options.kernel_initializer);
            made.value = kernel("value", by_columns, options.kernel_initializer);
            made.out = kernel("out", by_rows, options.out_initializer);
            return made;
          }) {}

Value MultiHeadAttention::ByHeads(const Value& x, const Variable& kernel) const {
  const Value flat = MatMul(x, ToCompute(kernel, precision_));
  if (!flat.valid()) return {};
  const Shape& shape = flat.shape();
  return Reshape(flat, {shape[0], shape[1], heads_, shape[2] / heads_});
}

Value MultiHeadAttention::operator()(const Value& given, CallSite loc) const {
  if (!given.valid()) return {};
  if (given.rank() != 3) {
    given.graph()->RecordError(fmt::format("{}: x is {}; it must be [b,s,units].",
                                           given.graph()->Describe("multi_head_attention", loc),
                                           given.type().ToString()));
    return {};
  }
  const Variables& variables = variables_.For(given);
  if (!variables.out.valid()) return {};
  const NameScope name_scope = NameScope::Of(variables.out, given);
  const LocationScope scope(*given.graph(), loc);
  const Value x = ToCompute(given, precision_);
  auto to_meet = [&](const Value& v) {
    return options_.attend_layout.has_value() ? Relayout(v, *options_.attend_layout) : v;
  };
  auto placed = [&](const Value& v) { return options_.rotary ? RotaryPositions({v, loc}) : v; };
  const Value q = to_meet(placed(ByHeads(x, variables.query))),
              k = to_meet(placed(ByHeads(x, variables.key)));
  const Value y = Attention({q, loc}, k, to_meet(ByHeads(x, variables.value)),
                            {.causal = options_.causal, .ring = options_.ring});
  if (!y.valid()) return {};
  return MatMul(Reshape(y, x.shape()), ToCompute(variables.out, precision_));
}

FeedForward::FeedForward(std::optional<int64_t> units, Graph& graph, const std::string& name, int64_t hidden,
                         const FeedForwardOptions& options, CallSite loc)
    : layers_(graph, units, [name, hidden, options, loc](Graph& graph, int64_t units) {
        const Dense in(graph, name + "/in", units, hidden,
                       {.kernel_layout = UnlessWhole({UNSHARDED, options.hidden}),
                        .bias_layout = UnlessWhole({options.hidden}),
                        .dtype = options.dtype,
                        .compute = options.compute,
                        .gather = options.gather,
                        .kernel_initializer = options.in_initializer},
                       loc);
        return Layers{in, Dense(graph, name + "/out", hidden, units,
                                {.kernel_layout = UnlessWhole({options.hidden, UNSHARDED}),
                                 .dtype = options.dtype,
                                 .compute = options.compute,
                                 .gather = options.gather,
                                 .kernel_initializer = options.out_initializer},
                                loc)};
      }) {}

Value FeedForward::operator()(const Value& x, CallSite loc) const {
  if (!x.valid()) return {};
  const Layers& layers = layers_.For(x);
  return layers.out(Gelu({layers.in(x, loc), loc}, GeluForm::kTanh), loc);
}

}  // namespace meshwork
