#include "meshwork/train/nn/layers.h"

#include "fmt/format.h"
#include "meshwork/ir/name_scope.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

Dense::Dense(std::optional<int64_t> inputs, Graph& graph, const std::string& name, int64_t units,
             const DenseOptions& options, CallSite loc)
    : precision_(LayerPrecision(graph, options.dtype, options.compute)),
      has_bias_(options.bias),
      activation_(options.activation),
      variables_(graph, inputs,
                 [name, units, options, loc, dtype = precision_.variables](Graph& graph, int64_t inputs) {
                   Variables made;
                   made.kernel =
                       graph.Var(name + "/kernel", options.kernel_initializer.For({inputs, units}, dtype),
                                 options.kernel_layout, {.gather = options.gather}, loc);
                   if (options.bias)
                     made.bias = graph.Var(name + "/bias", options.bias_initializer.For({units}, dtype),
                                           options.bias_layout, {.gather = options.gather}, loc);
                   return made;
                 }) {}

Value Dense::operator()(const Value& x, CallSite loc) const {
  if (!x.valid()) return {};
  const Variables& variables = variables_.For(x);
  const NameScope name_scope = NameScope::Of(variables.kernel, x);
  const LocationScope scope(*x.graph(), loc);
  const Value product = MatMul({ToCompute(x, precision_), loc}, ToCompute(variables.kernel, precision_));
  const Value y = has_bias_ ? Add({product, loc}, ToCompute(variables.bias, precision_)) : product;
  return internal::Activated(activation_, y, loc);
}

internal::Normalization::Normalization(std::optional<int64_t> units, Graph& graph, const std::string& name,
                                       const NormalizationOptions& options, CallSite loc)
    : epsilon_(options.epsilon),
      precision_(LayerPrecision(graph, options.dtype, options.compute)),
      variables_(graph, units,
                 [name, options, loc, dtype = precision_.variables](Graph& graph, int64_t units) {
                   const auto declare = [&](const char* which, const LayerInitializer& initializer) {
                     return graph.Var(fmt::format("{}/{}", name, which), initializer.For({units}, dtype),
                                      options.layout, {.gather = options.gather}, loc);
                   };
                   const Variable scale = declare("scale", options.scale_initializer);
                   return Variables{scale, declare("offset", options.offset_initializer)};
                 }) {}

Value internal::Normalization::Apply(
    const Value& x, CallSite loc,
    const std::function<Value(const Operand& x, const Variables& variables)>& norm) const {
  if (!x.valid()) return {};
  const Variables& variables = variables_.For(x);
  const NameScope name_scope = NameScope::Of(variables.scale, x);
  const LocationScope scope(*x.graph(), loc);
  return norm({ToCompute(x, precision_), loc}, variables);
}

Value LayerNormalization::operator()(const Value& x, CallSite loc) const {
  return Apply(x, loc, [&](const Operand& x, const Variables& variables) {
    return LayerNorm(x, variables.scale, variables.offset, epsilon_);
  });
}

}  // namespace meshwork
