// Layers: variables with a name, and the ops that use them.
#pragma once

#include <optional>
#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/initializers.h"

namespace meshwork {

struct DenseOptions {
  LayoutSpec kernel_layout = {UNSHARDED, UNSHARDED};  // of [inputs, units]
  LayoutSpec bias_layout = {UNSHARDED};               // of [units]
  DType dtype = F32;
  Gathering gather = Gathering::kWithinBudget;         // of kernel and bias; kOnUse gathers them for each use
  std::optional<Initializer> kernel_initializer = {};  // Glorot uniform; the bias starts at zero
};

// y = x · kernel + bias; x: [b, inputs] -> y: [b, units]. Variables "name/kernel" and "name/bias".
//
//   Dense dense1(g, "dense1", 784, 700, {.kernel_layout = {UNSHARDED, "model"}, .bias_layout = {"model"}});
//   Value h = Relu(dense1(x));
class Dense {
 public:
  Dense(Graph& graph, const std::string& name, int64_t inputs, int64_t units,
        const DenseOptions& options = {}, CallSite loc = CallSite::Current());
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

  const Variable& kernel() const { return kernel_; }
  const Variable& bias() const { return bias_; }

 private:
  Variable kernel_, bias_;
};

struct Conv2DOptions {
  WindowOptions window = {.padding = WindowPadding::Valid()};
  int64_t groups = 1;
  LayoutSpec kernel_layout = {UNSHARDED, UNSHARDED, UNSHARDED, UNSHARDED};  // of [h, w, inputs, filters]
  LayoutSpec bias_layout = {UNSHARDED};                                     // of [filters]
  DType dtype = F32;
  Gathering gather = Gathering::kWithinBudget;
  std::optional<Initializer> kernel_initializer = {};  // Glorot uniform; the bias starts at zero
};

// y = Conv(x, kernel) + bias; x: [b, h, w, inputs] -> y: [b, h', w', filters]. `size`: [h, w] of the filters.
// Variables "name/kernel", [h, w, inputs / groups, filters], and "name/bias".
//
//   Conv2D conv1(g, "conv1", 1, 32, {3, 3});
//   Value h = MaxPool(Relu(conv1(images)), {2, 2});
class Conv2D {
 public:
  Conv2D(Graph& graph, const std::string& name, int64_t inputs, int64_t filters, const Shape& size,
         const Conv2DOptions& options = {}, CallSite loc = CallSite::Current());
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

  const Variable& kernel() const { return kernel_; }
  const Variable& bias() const { return bias_; }

 private:
  Variable kernel_, bias_;
  ConvOptions options_;
};

struct LayerNormLayerOptions {
  LayoutSpec layout = {UNSHARDED};  // of scale and offset, [units]
  DType dtype = F32;
  Gathering gather = Gathering::kWithinBudget;
  double epsilon = 1e-5;
};

// y = LayerNorm(x, scale, offset); x: [.., units]. Variables "name/scale", all ones at first, and
// "name/offset", all zeros.
//
//   LayerNormLayer norm(g, "norm", 700, {.layout = {"model"}});
//   Value h = Relu(norm(dense1(x)));
class LayerNormLayer {
 public:
  LayerNormLayer(Graph& graph, const std::string& name, int64_t units,
                 const LayerNormLayerOptions& options = {}, CallSite loc = CallSite::Current());
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

  const Variable& scale() const { return scale_; }
  const Variable& offset() const { return offset_; }

 private:
  Variable scale_, offset_;
  double epsilon_;
};

}  // namespace meshwork
