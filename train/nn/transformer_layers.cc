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

namespace {

std::optional<std::string> WrongHeads(int64_t units, int64_t heads,
                                      const MultiHeadAttentionOptions& options) {
  if (heads < 1 || (options.head == 0 && units % heads != 0))
    return fmt::format("{} units are not divided by {} heads; give units that are a multiple of the heads.",
                       units, heads);
  if (options.kv_heads < 0 || (options.kv_heads > 0 && heads % options.kv_heads != 0))
    return fmt::format("{} heads are not divided by kv_heads={}; give heads that are a multiple of it, or 0.",
                       heads, options.kv_heads);
  if (options.head < 0 || options.memory_units < 0)
    return fmt::format("head={}, memory_units={}; neither is negative.", options.head, options.memory_units);
  return std::nullopt;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::optional<int64_t> units, Graph& graph, const std::string& name,
                                       int64_t heads, const MultiHeadAttentionOptions& options, CallSite loc)
    : name_(name),
      heads_(heads),
      kv_heads_(options.kv_heads == 0 ? heads : options.kv_heads),
      options_(options),
      precision_(LayerPrecision(graph, options.dtype, options.compute)),
      variables_(
          graph, units,
          [name, heads, of_keys = kv_heads_, options, loc, dtype = precision_.variables](Graph& graph,
                                                                                         int64_t units) {
            if (const auto wrong = WrongHeads(units, heads, options); wrong.has_value()) {
              graph.RecordError(fmt::format("{}: {}", graph.Describe(name, loc), *wrong));
              return Variables();
            }
            const auto projection = [&](const char* which, const Shape& shape, const LayoutSpec& layout,
                                        const LayerInitializer& start, bool has_bias) {
              const auto made = [&](const std::string& of, const Shape& shape, const LayoutSpec& layout,
                                    const LayerInitializer& start) {
                return graph.Var(fmt::format("{}/{}", name, of), start.For(shape, dtype), UnlessWhole(layout),
                                 {.gather = options.gather}, loc);
              };
              Projection by{.kernel = made(which, shape, layout, start)};
              if (has_bias) by.bias = made(fmt::format("{}_bias", which), {shape[1]}, {layout[1]}, Zeros());
              return by;
            };
            const int64_t head = options.head == 0 ? units / heads : options.head;
            const int64_t memory = options.memory_units == 0 ? units : options.memory_units;
            const LayoutSpec by_columns = {UNSHARDED, options.heads}, by_rows = {options.heads, UNSHARDED};
            const LayerInitializer& start = options.kernel_initializer;
            Variables made;
            made.query = projection("query", {units, heads * head}, by_columns, start, options.bias);
            made.key = projection("key", {memory, of_keys * head}, by_columns, start, options.bias);
            made.value = projection("value", {memory, of_keys * head}, by_columns, start, options.bias);
            made.out =
                projection("out", {heads * head, units}, by_rows, options.out_initializer, options.out_bias);
            return made;
          }) {
  if (options.dropout != 0)
    dropout_.emplace(graph, name + "/dropout", options.dropout, DropoutOptions(), loc);
}

Value MultiHeadAttention::Project(const Value& x, const Projection& by) const {
  const Value y = MatMul(x, ToCompute(by.kernel, precision_));
  return by.bias.valid() ? Add(y, ToCompute(by.bias, precision_)) : y;
}

Value MultiHeadAttention::ByHeads(const Value& x, const Projection& by, int64_t heads) const {
  const Value flat = Project(x, by);
  if (!flat.valid()) return {};
  const Shape& shape = flat.shape();
  return Reshape(flat, {shape[0], shape[1], heads, shape[2] / heads});
}

bool MultiHeadAttention::Check(const Value& x, const AttendTo& to, CallSite loc) const {
  std::string wrong;
  if (x.rank() != 3) {
    wrong = fmt::format("x is {}; it must be [b,s,units].", x.type().ToString());
  } else if (to.memory.valid() && to.memory.rank() != 3) {
    wrong = fmt::format("the memory is {}; it must be [b,t,units].", to.memory.type().ToString());
  } else if (to.memory.valid() && options_.rotary.has_value()) {
    wrong = "a memory with `rotary`; its positions would have to be those of x.";
  } else if (to.cache != nullptr) {
    const char* const beside = to.memory.valid()      ? "a memory"
                               : to.seen.valid()      ? "`seen`"
                               : to.positions.valid() ? "positions"
                                                      : nullptr;
    const auto is = [](const Value& v) { return v.valid() ? v.type().ToString() : "nothing"; };
    const auto keeps = [&](const Value& v) {
      return v.valid() && v.rank() == 4 && IsFloat(v.dtype()) && v.shape()[0] == x.shape()[0] &&
             v.shape()[1] >= x.shape()[1] && v.shape()[2] == kv_heads_;
    };
    const AttentionCache& cache = *to.cache;
    if (beside != nullptr) {
      wrong = fmt::format("{} beside a cache; its places say what a query sees.", beside);
    } else if (!keeps(cache.keys) || !keeps(cache.values) || !cache.places.valid() ||
               cache.places.type() != Type{I32, {x.shape()[0]}}) {
      wrong = fmt::format(
          "the cache is keys {}, values {}, places {}; for x: {} they must be floats [{},c,{},head] "
          "with c from {} on, twice, and i32[{}].",
          is(cache.keys), is(cache.values), is(cache.places), x.type().ToString(), x.shape()[0], kv_heads_,
          x.shape()[1], x.shape()[0]);
    }
  }
  if (wrong.empty()) return true;
  x.graph()->RecordError(fmt::format("{}: {}", x.graph()->Describe("multi_head_attention", loc), wrong));
  return false;
}

Value MultiHeadAttention::operator()(const Value& given, const AttendTo& to, CallSite loc) const {
  if (!given.valid() || !Check(given, to, loc)) return {};
  const Variables& variables = variables_.For(given);
  if (!variables.out.kernel.valid()) return {};
  const NameScope name_scope = NameScope::Of(variables.out.kernel, given);
  const LocationScope scope(*given.graph(), loc);
  const Value x = ToCompute(given, precision_);
  const Value memory = to.memory.valid() ? ToCompute(to.memory, precision_) : x;
  AttentionOptions attend{.causal = options_.causal && to.cache == nullptr,
                          .scale = options_.scale,
                          .mask = to.mask,
                          .seen = to.seen,
                          .window = options_.window,
                          .soft_cap = options_.soft_cap,
                          .ring = options_.ring};
  if (dropout_.has_value())
    attend.drop = [this, loc](const Value& shares) { return (*dropout_)(shares, loc); };
  Value positions = to.positions;
  if (to.cache != nullptr) {
    const Shape rows = {x.shape()[0], x.shape()[1]};
    positions = Add(Iota(*x.graph(), {I32, rows}, 1), ExpandDims(to.cache->places, {1}));
    attend.seen = Add(positions, 1.0);
  }
  const auto to_meet = [&](const Value& v) {
    return options_.attend_layout.has_value() ? Relayout(v, *options_.attend_layout) : v;
  };
  const auto placed = [&](const Value& v) {
    if (!options_.rotary.has_value() || !v.valid()) return v;
    RotaryOptions rotary = *options_.rotary;
    if (positions.valid()) rotary.positions = positions;
    return RotaryPositions({v, loc}, rotary);
  };
  const Value q = to_meet(placed(ByHeads(x, variables.query, heads_)));
  Value k = to_meet(placed(ByHeads(memory, variables.key, kv_heads_))),
        v = to_meet(ByHeads(memory, variables.value, kv_heads_));
  if (!q.valid() || !k.valid() || !v.valid()) return {};
  if (to.cache != nullptr) {
    const Value start = ExpandDims(to.cache->places, {1});  // [b,1]
    const auto stored = [&](Value& cache, const Value& now) {
      cache = DynamicUpdateSlice({cache, loc}, InDType(now, cache.dtype()), start, {1});
      return cache.valid() ? InDType(cache, now.dtype()) : cache;
    };
    k = stored(to.cache->keys, k);
    v = stored(to.cache->values, v);
    if (!k.valid() || !v.valid()) return {};
  }
  const Value y = Attention({q, loc}, k, v, attend);
  if (!y.valid()) return {};
  const Shape& shape = y.shape();
  return Project(Reshape(y, {shape[0], shape[1], shape[2] * shape[3]}), variables.out);
}

FeedForward::FeedForward(std::optional<int64_t> units, Graph& graph, const std::string& name, int64_t hidden,
                         const FeedForwardOptions& options, CallSite loc)
    : activation_(options.activation),
      layers_(graph, units, [name, hidden, options, loc](Graph& graph, int64_t units) {
        DenseOptions of_in{.kernel_layout = UnlessWhole({UNSHARDED, options.hidden}),
                           .bias_layout = UnlessWhole({options.hidden}),
                           .dtype = options.dtype,
                           .compute = options.compute,
                           .gather = options.gather,
                           .kernel_initializer = options.in_initializer,
                           .bias = options.bias};
        DenseOptions of_out = of_in;
        of_out.kernel_layout = UnlessWhole({options.hidden, UNSHARDED});
        of_out.bias_layout = {};
        of_out.kernel_initializer = options.out_initializer;
        Layers layers{Dense(graph, name + "/in", units, hidden, of_in, loc),
                      Dense(graph, name + "/out", hidden, units, of_out, loc),
                      {}};
        if (options.gated) layers.gate.emplace(graph, name + "/gate", units, hidden, of_in, loc);
        return layers;
      }) {
  if (activation_ == nullptr) activation_ = [](const Operand& x) { return Gelu(x, GeluForm::kTanh); };
}

Value FeedForward::operator()(const Value& x, CallSite loc) const {
  if (!x.valid()) return {};
  const Layers& layers = layers_.For(x);
  const Value in = layers.in(x, loc);
  if (!layers.gate.has_value()) return layers.out(activation_({in, loc}), loc);
  return layers.out(Mul(activation_({(*layers.gate)(x, loc), loc}), in), loc);
}

}  // namespace meshwork
