#include "train/layers.h"

#include "ops/ops.h"

namespace meshwork {

Dense::Dense(Graph& graph, const std::string& name, int64_t inputs, int64_t units,
             const DenseOptions& options, CallSite loc)
    : kernel_(graph.Var(name + "/kernel",
                        options.kernel_initializer.value_or(GlorotUniform({inputs, units}, options.dtype)),
                        options.kernel_layout, {.gather = options.gather}, loc)),
      bias_(graph.Var(name + "/bias", Zeros({units}, options.dtype), options.bias_layout,
                      {.gather = options.gather}, loc)) {}

Value Dense::operator()(const Value& x, CallSite loc) const {
  return Add({MatMul({x, loc}, kernel_), loc}, bias_);
}

LayerNormLayer::LayerNormLayer(Graph& graph, const std::string& name, int64_t units,
                               const LayerNormLayerOptions& options, CallSite loc)
    : scale_(graph.Var(name + "/scale", Filled(1, {units}, options.dtype), options.layout,
                       {.gather = options.gather}, loc)),
      offset_(graph.Var(name + "/offset", Zeros({units}, options.dtype), options.layout,
                        {.gather = options.gather}, loc)),
      epsilon_(options.epsilon) {}

Value LayerNormLayer::operator()(const Value& x, CallSite loc) const {
  return LayerNorm({x, loc}, scale_, offset_, epsilon_);
}

}  // namespace meshwork
