// Layers of convolution networks; train/nn/layers.h says what holds for all layers.
// Images are channels-last (ops/convolution.h).
//
//   Conv2D conv(g, "conv", 3, 32, {3, 3}, {.window = {.padding = WindowPadding::Same()}});
//   Value h = GlobalAvgPool(Relu(conv(images)));   // [b, h, w, 3] -> [b, 32]
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/nn/layer_variables.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/nn/precision.h"

namespace meshwork {

struct ConvLayerOptions {
  WindowOptions window = {.padding = WindowPadding::Valid()};
  int64_t groups = 1;
  LayoutSpec kernel_layout = {};  // of the kernel, see the layer
  LayoutSpec bias_layout = {};    // of [filters]
  std::optional<DType> dtype = {}, compute = {};
  Gathering gather = Gathering::kWithinBudget;
  // Glorot uniform counts the fans of the whole filter.
  LayerInitializer kernel_initializer = GlorotUniform(), bias_initializer = Zeros();
  bool bias = true;  // whether there is one; before a norm it has no effect
  Activation activation = {};
};
using Conv1DOptions = ConvLayerOptions;
using Conv2DOptions = ConvLayerOptions;
using Conv3DOptions = ConvLayerOptions;

namespace internal {

enum class ConvKind : uint8_t { kConv, kTransposed, kDepthwise };

// channels · multiplier; on overflow of int64_t, a number too large for a tensor.
int64_t TimesMultiplier(int64_t channels, int64_t multiplier);

// The base of convolution layers: a kernel, perhaps a bias.
class ConvBase {
 public:
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

  const Variable& kernel() const { return variables_.Now().kernel; }
  const Variable& bias() const { return variables_.Now().bias; }  // invalid without a bias

 protected:
  // `filters`: in all, or, if depthwise, per channel.
  ConvBase(ConvKind kind, int spatial, std::optional<int64_t> inputs, Graph& graph, const std::string& name,
           int64_t filters, const Shape& size, const ConvLayerOptions& options, CallSite loc);

 private:
  struct Variables {
    Variable kernel, bias;
    ConvOptions options;
  };

  ConvKind kind_;
  Precision precision_;
  bool has_bias_;
  Activation activation_;
  LayerVariables<Variables> variables_;
};

template <int kSpatial, ConvKind kKind>
class FilterLayer : public ConvBase {
 public:
  template <std::integral Filters>  // no int64_t, which {3} would be, too
  FilterLayer(Graph& graph, const std::string& name, int64_t inputs, Filters filters, const Shape& size,
              const ConvLayerOptions& options = {}, CallSite loc = CallSite::Current())
      : ConvBase(kKind, kSpatial, inputs, graph, name, filters, size, options, loc) {}
  FilterLayer(Graph& graph, const std::string& name, int64_t filters, const Shape& size,
              const ConvLayerOptions& options = {}, CallSite loc = CallSite::Current())
      : ConvBase(kKind, kSpatial, std::nullopt, graph, name, filters, size, options, loc) {}
};

}  // namespace internal

// y = activation(Conv(x, kernel) + bias); x: [b, spatial…, inputs] -> y: [b, spatial…, filters]. `size`: the filters'
// size in each of the kSpatial (1 to 3) spatial dims. Variables "name/kernel", [size…, inputs / groups, filters], and
// "name/bias".
//
//   Conv2D conv1(g, "conv1", 1, 32, {3, 3});       // 1 input, 32 filters
//   Conv2D conv2(g, "conv2", 64, {3, 3});          // 64 filters
//   Value h = conv2(MaxPool(Relu(conv1(images)), {2, 2}));
//
// Errors (recorded): not one size per spatial dim; Conv's.
template <int kSpatial>
using ConvLayer = internal::FilterLayer<kSpatial, internal::ConvKind::kConv>;

using Conv1D = ConvLayer<1>;
using Conv2D = ConvLayer<2>;
using Conv3D = ConvLayer<3>;

// y = activation(ConvTranspose(x, kernel) + bias); x: [b, spatial…, inputs] -> y: [b, spatial…, filters], larger than x
// by the strides. Constructed like ConvLayer. Variables "name/kernel", [size…, filters / groups, inputs], and
// "name/bias". Errors: as ConvLayer's.
//
//   Conv2DTranspose up(g, "up", 64, 32, {2, 2}, {.window = {.strides = {2, 2}}});   // [b, 7, 7, 64] -> [b, 14, 14, 32]
template <int kSpatial>
using ConvTransposeLayer = internal::FilterLayer<kSpatial, internal::ConvKind::kTransposed>;

using Conv1DTranspose = ConvTransposeLayer<1>;
using Conv2DTranspose = ConvTransposeLayer<2>;
using Conv3DTranspose = ConvTransposeLayer<3>;

struct DepthwiseConvLayerOptions {
  WindowOptions window = {.padding = WindowPadding::Valid()};
  int64_t multiplier = 1;         // filters per channel
  LayoutSpec kernel_layout = {};  // of [size…, 1, channels · multiplier]
  LayoutSpec bias_layout = {};    // of [channels · multiplier]
  std::optional<DType> dtype = {}, compute = {};
  Gathering gather = Gathering::kWithinBudget;
  LayerInitializer kernel_initializer = GlorotUniform(), bias_initializer = Zeros();
  bool bias = true;
  Activation activation = {};
};

// A ConvLayer in which every channel is a group: x: [b, spatial…, channels] -> y: [b, spatial…, channels · multiplier].
// Channel c of x makes channels c · multiplier, … of y, as in Keras and PyTorch. Variables "name/kernel", [size…, 1,
// channels · multiplier], and "name/bias".
template <int kSpatial>
class DepthwiseConvLayer : public internal::ConvBase {
 public:
  template <std::integral Channels>  // no int64_t, which {3} would be, too
  DepthwiseConvLayer(Graph& graph, const std::string& name, Channels channels, const Shape& size,
                     const DepthwiseConvLayerOptions& options = {}, CallSite loc = CallSite::Current())
      : DepthwiseConvLayer(std::optional<int64_t>(channels), graph, name, size, options, loc) {}
  DepthwiseConvLayer(Graph& graph, const std::string& name, const Shape& size,
                     const DepthwiseConvLayerOptions& options = {}, CallSite loc = CallSite::Current())
      : DepthwiseConvLayer(std::nullopt, graph, name, size, options, loc) {}

 private:
  DepthwiseConvLayer(std::optional<int64_t> channels, Graph& graph, const std::string& name,
                     const Shape& size, const DepthwiseConvLayerOptions& options, CallSite loc)
      : ConvBase(internal::ConvKind::kDepthwise, kSpatial, channels, graph, name, options.multiplier, size,
                 {.window = options.window,
                  .kernel_layout = options.kernel_layout,
                  .bias_layout = options.bias_layout,
                  .dtype = options.dtype,
                  .compute = options.compute,
                  .gather = options.gather,
                  .kernel_initializer = options.kernel_initializer,
                  .bias_initializer = options.bias_initializer,
                  .bias = options.bias,
                  .activation = options.activation},
                 loc) {}
};

using DepthwiseConv1D = DepthwiseConvLayer<1>;
using DepthwiseConv2D = DepthwiseConvLayer<2>;
using DepthwiseConv3D = DepthwiseConvLayer<3>;

struct SeparableConvLayerOptions {
  WindowOptions window = {.padding = WindowPadding::Valid()};  // of the depthwise convolution
  int64_t multiplier = 1;                                      // depthwise filters per input
  LayoutSpec depthwise_layout = {};                            // of [size…, 1, inputs · multiplier]
  LayoutSpec pointwise_layout = {};                            // of [1…, inputs · multiplier, filters]
  LayoutSpec bias_layout = {};                                 // of [filters]
  std::optional<DType> dtype = {}, compute = {};
  Gathering gather = Gathering::kWithinBudget;
  LayerInitializer depthwise_initializer = GlorotUniform(), pointwise_initializer = GlorotUniform(),
                   bias_initializer = Zeros();
  bool bias = true;
  Activation activation = {};  // of the pointwise convolution
};

// A depthwise convolution without a bias, then a convolution of size 1 with a bias, as Keras' SeparableConv2D (Chollet,
// arXiv 1610.02357): x: [b, spatial…, inputs] -> y: [b, spatial…, filters]. Variables "name/depthwise/kernel",
// "name/pointwise/kernel" and "name/pointwise/bias". Errors: as ConvLayer's.
//
//   SeparableConv2D conv(g, "conv", 64, {3, 3}, {.window = {.padding = WindowPadding::Same()}});
template <int kSpatial>
class SeparableConvLayer {
 public:
  template <std::integral Filters>  // no int64_t, which {3} would be, too
  SeparableConvLayer(Graph& graph, const std::string& name, int64_t inputs, Filters filters,
                     const Shape& size, const SeparableConvLayerOptions& options = {},
                     CallSite loc = CallSite::Current())
      : depthwise_(graph, name + "/depthwise", inputs, size, Depthwise(options), loc),
        pointwise_(graph, name + "/pointwise", internal::TimesMultiplier(inputs, options.multiplier), filters,
                   Shape(kSpatial, 1), Pointwise(options), loc) {}
  SeparableConvLayer(Graph& graph, const std::string& name, int64_t filters, const Shape& size,
                     const SeparableConvLayerOptions& options = {}, CallSite loc = CallSite::Current())
      : depthwise_(graph, name + "/depthwise", size, Depthwise(options), loc),
        pointwise_(graph, name + "/pointwise", filters, Shape(kSpatial, 1), Pointwise(options), loc) {}
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const {
    return pointwise_(depthwise_(x, loc), loc);
  }

  const DepthwiseConvLayer<kSpatial>& depthwise() const { return depthwise_; }
  const ConvLayer<kSpatial>& pointwise() const { return pointwise_; }

 private:
  static DepthwiseConvLayerOptions Depthwise(const SeparableConvLayerOptions& options) {
    return {.window = options.window,
            .multiplier = options.multiplier,
            .kernel_layout = options.depthwise_layout,
            .dtype = options.dtype,
            .compute = options.compute,
            .gather = options.gather,
            .kernel_initializer = options.depthwise_initializer,
            .bias = false};
  }
  static ConvLayerOptions Pointwise(const SeparableConvLayerOptions& options) {
    return {.kernel_layout = options.pointwise_layout,
            .bias_layout = options.bias_layout,
            .dtype = options.dtype,
            .compute = options.compute,
            .gather = options.gather,
            .kernel_initializer = options.pointwise_initializer,
            .bias_initializer = options.bias_initializer,
            .bias = options.bias,
            .activation = options.activation};
  }

  DepthwiseConvLayer<kSpatial> depthwise_;
  ConvLayer<kSpatial> pointwise_;
};

using SeparableConv1D = SeparableConvLayer<1>;
using SeparableConv2D = SeparableConvLayer<2>;

// The mean, or the largest, over all spatial dims; x: [n, spatial…, c] -> [n, c]. Errors: fewer than 3 dims;
// ReduceMean's and ReduceMax's.
Value GlobalAvgPool(const Operand& x);
Value GlobalMaxPool(const Operand& x);

}  // namespace meshwork
