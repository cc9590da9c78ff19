#include "meshwork/train/nn/transformer_block.h"

#include "meshwork/ir/name_scope.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// A layer of this type, whether or not the number of its inputs is known.
template <typename Layer, typename... Arguments>
Layer MakeLayer(const std::optional<int64_t>& units, Graph& graph, const std::string& name,
                const Arguments&... arguments) {
  return units.has_value() ? Layer(graph, name, *units, arguments...) : Layer(graph, name, arguments...);
}

std::variant<LayerNormalization, RmsNormalization> MakeNorm(const std::optional<int64_t>& units, Graph& graph,
                                                            const std::string& name,
                                                            const TransformerBlockOptions& options,
                                                            CallSite loc) {
  if (options.norm == BlockNorm::kLayer) {
    const NormalizationOptions norm{
        .dtype = options.dtype, .compute = options.compute, .epsilon = options.epsilon};
    return MakeLayer<LayerNormalization>(units, graph, name, norm, loc);
  }
  const RmsNormalizationOptions norm{
      .dtype = options.dtype, .compute = options.compute, .epsilon = options.epsilon};
  return MakeLayer<RmsNormalization>(units, graph, name, norm, loc);
}

// `part`, of a block, with what the block's options say of dtypes that it leaves open.
template <typename Options>
Options InDTypesOf(const TransformerBlockOptions& block, Options part) {
  if (!part.dtype.has_value()) part.dtype = block.dtype;
  if (!part.compute.has_value()) part.compute = block.compute;
  return part;
}

}  // namespace

TransformerBlock::TransformerBlock(std::optional<int64_t> units, Graph& graph, const std::string& name,
                                   int64_t heads, int64_t hidden, const TransformerBlockOptions& options,
                                   CallSite loc)
    : scope_(graph.scope().empty() ? name : graph.scope() + "/" + name),
      norm_first_(options.norm_first),
      norm1_(MakeNorm(units, graph, name + "/norm1", options, loc)),
      attention_(MakeLayer<MultiHeadAttention>(units, graph, name + "/attention", heads,
                                               InDTypesOf(options, options.attention), loc)),
      norm2_(MakeNorm(units, graph, name + "/norm2", options, loc)),
      feed_forward_(MakeLayer<FeedForward>(units, graph, name + "/feed_forward", hidden,
                                           InDTypesOf(options, options.feed_forward), loc)) {
  if (options.dropout != 0)
    dropout_.emplace(graph, name + "/dropout", options.dropout, DropoutOptions(), loc);
  if (options.drop_path != 0)
    drop_path_.emplace(graph, name + "/drop_path", options.drop_path, DropoutOptions{.whole_dims = {1, 2}},
                       loc);
}

template <typename Branch>
Value TransformerBlock::Beside(const Value& x, const Norm& norm, CallSite loc, const Branch& branch) const {
  const auto normed = [&](const Value& v) {
    return std::visit([&](const auto& layer) { return layer(v, loc); }, norm);
  };
  Value y = branch(norm_first_ ? normed(x) : x);
  if (dropout_.has_value()) y = (*dropout_)(y, loc);
  if (drop_path_.has_value()) y = (*drop_path_)(y, loc);
  if (!y.valid()) return {};
  const Value sum = Add({x, loc}, y);
  return norm_first_ ? sum : normed(sum);
}

Value TransformerBlock::operator()(const Value& x, const AttendTo& to, CallSite loc) const {
  if (!x.valid()) return {};
  const NameScope outside = NameScope::None(*x.graph());
  const NameScope scope(*x.graph(), scope_, loc);
  const Value h = Beside(x, norm1_, loc, [&](const Value& v) { return attention_(v, to, loc); });
  return Beside(h, norm2_, loc, [&](const Value& v) { return feed_forward_(v, loc); });
}

}  // namespace meshwork
