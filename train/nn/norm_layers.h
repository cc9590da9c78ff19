// Batch normalization and dropout, which work differently in training and outside of it, and group normalization.
// LayerNormalization is in train/nn/layers.h, RmsNormalization in train/nn/transformer_layers.h.
//
//   BatchNormalization norm(g, "norm", 32);
//   Dropout dropout(g, "dropout", 0.5);
//   Value h = dropout(Relu(norm(conv(images))));
//
// Session::Run trains: it takes the statistics of the batch, and drops elements. Session::Evaluate and Predict do
// neither (WhenTraining, ops/cast.h).
//
// Like all builders these write the graph; mistakes are recorded there. train/nn/layers.h says what holds for all
// layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "meshwork/base/random.h"
#include "meshwork/ir/dim_list.h"
#include "meshwork/ir/graph.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/nn/layer_variables.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/nn/precision.h"

namespace meshwork {

struct BatchNormalizationOptions {
  double momentum = 0.99;  // of the running statistics; PyTorch's is 1 - momentum, 0.1 unless given
  double epsilon = 1e-5;   // 1e-3 in Keras
  bool scale = true;       // whether there is a variable "name/scale"; without it the scale is 1
  bool offset = true;      // "name/offset"; 0
  // Whether the running variance is made of sample variances, sum / (n - 1), as in PyTorch. In training y does not
  // depend on it.
  bool unbiased = false;
  LayoutSpec layout = {};  // of all variables, [units]
  std::optional<DType> dtype = {}, compute = {};
  Gathering gather = Gathering::kWithinBudget;
  LayerInitializer scale_initializer = Filled(1), offset_initializer = Zeros();
};

// y = (x - mean) / sqrt(variance + epsilon) · scale + offset; x: [..,units], of rank 2 or higher (Ioffe and Szegedy,
// arXiv 1502.03167). In training, mean and variance are those of the batch over all dims but the last: over its rows on
// all devices; in a short batch, over the rows that are there. Outside of training the running statistics are used:
//
//   running = momentum · running + (1 - momentum) · batch
//
// Variables "name/scale", at first 1, "name/offset", 0, "name/mean", 0, and "name/variance", 1. Mean and variance are
// not trainable; a step of training updates them. bf16 is normalized in f32, and its running statistics are f32.
//
// If a layer is called several times, as the discriminator of a GAN for real and for generated images, each call has
// the statistics of its own x, and updates the running statistics, in the order of the calls.
//
// A replica (Strategy::Run) takes the statistics of the whole batch, over the real rows of all replicas: its numbers
// are those of the same model outside of Strategy::Run. (Keras calls this synchronized.)
//
// Errors (recorded): a momentum that is not in [0, 1); BatchNorm's (ops/norms.h); a call in the body of a loop, where a
// variable cannot be updated.
class BatchNormalization {
 public:
  BatchNormalization(Graph& graph, const std::string& name, int64_t units,
                     const BatchNormalizationOptions& options = {}, CallSite loc = CallSite::Current())
      : BatchNormalization(std::optional(units), graph, name, options, loc) {}
  BatchNormalization(Graph& graph, const std::string& name, const BatchNormalizationOptions& options = {},
                     CallSite loc = CallSite::Current())
      : BatchNormalization(std::nullopt, graph, name, options, loc) {}
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

  const Variable& scale() const { return variables_.Now().scale; }    // invalid without a scale
  const Variable& offset() const { return variables_.Now().offset; }  // invalid without an offset
  const Variable& mean() const { return variables_.Now().mean; }
  const Variable& variance() const { return variables_.Now().variance; }

 private:
  struct Variables {
    Variable scale, offset, mean, variance;
  };

  BatchNormalization(std::optional<int64_t> units, Graph& graph, const std::string& name,
                     const BatchNormalizationOptions& options, CallSite loc);

  BatchNormalizationOptions options_;
  Precision precision_;
  internal::LayerVariables<Variables> variables_;
};

// y = GroupNorm(x, scale, offset, groups); x: [n, spatial…, channels]. As many groups as channels make an instance norm
// (Ulyanov et al., arXiv 1607.08022). Variables "name/scale", all ones at first, and "name/offset", all zeros.
class GroupNormalization : public internal::Normalization {
 public:
  GroupNormalization(Graph& graph, const std::string& name, int64_t channels, int64_t groups,
                     const NormalizationOptions& options = {}, CallSite loc = CallSite::Current())
      : Normalization(channels, graph, name, options, loc), groups_(groups) {}
  GroupNormalization(Graph& graph, const std::string& name, int64_t groups,
                     const NormalizationOptions& options = {}, CallSite loc = CallSite::Current())
      : Normalization(std::nullopt, graph, name, options, loc), groups_(groups) {}
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

 private:
  int64_t groups_;
};

// The variable that counts the steps of training for all dropout of a graph, i64[]. The first Dropout declares and
// updates it.
inline constexpr const char* kDropoutStep = "dropout/step";

struct DropoutOptions {
  int64_t seed = DefaultSeed();
  DimList whole_dims = {};  // along which all elements are dropped, or none
};

// In training, each element of x becomes 0 with probability `rate`, else x / (1 - rate); outside of it, y = x
// (Srivastava et al., JMLR 15, 2014). x: floats of any shape.
//
// The elements that are dropped depend on the seed, the name, the step and the element's global index: they are the
// same on every mesh, and also after a restart from a checkpoint; each step drops others. A second call, or a second
// layer of this name and seed, drops other elements. So does each iteration of a loop.
//
// With `whole_dims` a mask has only the other dims; Keras' noise_shape has size 1 at the whole ones. Then a whole path
// of a residual network is dropped for an example (drop path, stochastic depth; Huang et al., ECCV 2016), or a whole
// channel:
//
//   x = x + Dropout(g, "path", 0.1, {.whole_dims = {1, 2}})(h);         // h: [b,t,d]
//   x = Dropout(g, "channels", 0.2, {.whole_dims = {1, 2}})(images);    // [b,h,w,c]
//
// Errors (recorded): Dropout's (ops/norms.h); an argument "dropout/step" that is no i64[] variable.
class Dropout {
 public:
  Dropout(Graph& graph, const std::string& name, double rate, const DropoutOptions& options = {},
          CallSite loc = CallSite::Current());
  Value operator()(const Value& x, CallSite loc = CallSite::Current()) const;

 private:
  std::string name_;
  double rate_;
  DropoutOptions options_;
  Variable step_;
};

}  // namespace meshwork
