// Layers: variables with a name, and the ops that use them. Layers of other kinds are in train/nn/conv_layers.h,
// norm_layers.h, recurrent_layers.h, transformer_layers.h and transformer_block.h. This holds for all of them:
//
// If the options give no layout, the graph's rules do (Graph::SetLayouts); without a rule, a variable is whole on every
// device. The ops of a layer belong to the scope of its name (ir/name_scope.h).
//
// All options have `dtype`, of the variables, and `compute`, of inputs, results and intermediate values. If `compute`
// is left out, it is `dtype`. Graph::SetPrecision decides what is still open (train/nn/precision.h). If `compute` is
// not the dtype of the variables, in the layer or in its graph, a layer casts its input and its variables.
//
// The number of inputs of a layer, the last dim of x, may be left out: the first call gives it. Until then the
// variables are not valid. Layers that are called in the order in which they are made have the same variables either
// way.
//
//   Dense(g, "hidden", 784, 256)      // inputs, units
//   Dense(g, "hidden", 256)           // units
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/nn/layer_variables.h"
#include "meshwork/train/nn/precision.h"

namespace meshwork {

// The function that is applied to a layer's result: an op of ops/activations.h, such as Relu or Sigmoid, or one of the
// user's, such as [](const Operand& x) { return LeakyRelu(x, 0.2); }. Empty: none.
using Activation = std::function<Value(const Operand& x)>;

struct DenseOptions {
  LayoutSpec kernel_layout = {};  // of [inputs, units]
  LayoutSpec bias_layout = {};    // of [units]
  std::optional<DType> dtype = {}, compute = {};
  Gathering gather = Gathering::kWithinBudget;  // of kernel and bias; kOnUse gathers them for each use
  LayerInitializer kernel_initializer = GlorotUniform(), bias_initializer = Zeros();
  bool bias = true;  // whether there is one
  Activation activation = {};
};

// y = activation(x · kernel + bias); x: [.., inputs] -> y: [.., units]. Variables "name/kernel" and "name/bias".
//
//   Dense dense1(g, "dense1", 784, 700, {.kernel_layout = {UNSHARDED, "model"}, .bias_layout = {"model"}});
//   Value h = Relu(dense1(x));
class Dense {
 public:
  Dense(Graph& graph, const std::string& name, int64_t inputs, int64_t units,
        const DenseOptions& options = {}, CallSite loc = CallSite::Current())
      : Dense(std::optional(inputs), graph, name, units, options, loc) {}
  Dense(Graph& graph, const std::string& name, int64_t units, const DenseOptions& options = {},
        CallSite loc = CallSite::Current())
      : Dense(std::nullopt, graph, name, units, options, loc) {}
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

  const Variable& kernel() const { return variables_.Now().kernel; }
  const Variable& bias() const { return variables_.Now().bias; }  // invalid without a bias

 private:
  struct Variables {
    Variable kernel, bias;
  };

  Dense(std::optional<int64_t> inputs, Graph& graph, const std::string& name, int64_t units,
        const DenseOptions& options, CallSite loc);

  Precision precision_;
  bool has_bias_;
  Activation activation_;
  internal::LayerVariables<Variables> variables_;
};

namespace internal {

// `y`, a layer's result, after its activation.
inline Value Activated(const Activation& activation, const Value& y, CallSite loc) {
  return activation == nullptr || !y.valid() ? y : activation({y, loc});
}

}  // namespace internal

// The options of LayerNormalization and GroupNormalization.
struct NormalizationOptions {
  LayoutSpec layout = {};  // of scale and offset, [units]
  std::optional<DType> dtype = {}, compute = {};
  Gathering gather = Gathering::kWithinBudget;
  double epsilon = 1e-5;
  LayerInitializer scale_initializer = Filled(1), offset_initializer = Zeros();
};

namespace internal {

// The base of norms with a scale and an offset, [units].
class Normalization {
 public:
  const Variable& scale() const { return variables_.Now().scale; }
  const Variable& offset() const { return variables_.Now().offset; }

 protected:
  struct Variables {
    Variable scale, offset;
  };

  Normalization(std::optional<int64_t> units, Graph& graph, const std::string& name,
                const NormalizationOptions& options, CallSite loc);
  // norm(x, scale, offset), in the layer's name scope.
  Value Apply(const Value& x, CallSite loc,
              const std::function<Value(const Operand& x, const Variables& variables)>& norm) const;

  double epsilon_;

 private:
  Precision precision_;
  LayerVariables<Variables> variables_;
};

}  // namespace internal

// y = LayerNorm(x, scale, offset), whose variables are not cast; x: [.., units]. Variables "name/scale", all ones at
// first, and "name/offset", all zeros.
//
//   LayerNormalization norm(g, "norm", 700, {.layout = {"model"}});
//   Value h = Relu(norm(dense1(x)));
class LayerNormalization : public internal::Normalization {
 public:
  LayerNormalization(Graph& graph, const std::string& name, int64_t units,
                     const NormalizationOptions& options = {}, CallSite loc = CallSite::Current())
      : Normalization(units, graph, name, options, loc) {}
  LayerNormalization(Graph& graph, const std::string& name, const NormalizationOptions& options = {},
                     CallSite loc = CallSite::Current())
      : Normalization(std::nullopt, graph, name, options, loc) {}
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;
};

}  // namespace meshwork
