#include "meshwork/train/layers.h"

#include "meshwork/ops/ops.h"

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

namespace {

// [size…, inputs / groups, filters]; groups that divide nothing are Conv's to refuse.
Shape FilterShape(const Shape& size, int64_t inputs, int64_t filters, int64_t groups) {
  Shape shape = size;
  shape.push_back(groups > 0 ? inputs / groups : inputs);
  shape.push_back(filters);
  return shape;
}

}  // namespace

Conv2D::Conv2D(Graph& graph, const std::string& name, int64_t inputs, int64_t filters, const Shape& size,
               const Conv2DOptions& options, CallSite loc)
    : kernel_(graph.Var(name + "/kernel",
                        options.kernel_initializer.value_or(
                            GlorotUniform(FilterShape(size, inputs, filters, options.groups), options.dtype)),
                        options.kernel_layout, {.gather = options.gather}, loc)),
      bias_(graph.Var(name + "/bias", Zeros({filters}, options.dtype), options.bias_layout,
                      {.gather = options.gather}, loc)),
      options_{options.window, options.groups} {}

Value Conv2D::operator()(const Value& x, CallSite loc) const {
  return Add({Conv({x, loc}, kernel_, options_), loc}, bias_);
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
