// Optimizers: gradients of a loss, and the updates of the variables that it depends on.
//
//   Adam({.learning_rate = 1e-3}).Minimize(loss);
//   Momentum({.learning_rate = CosineDecay({.initial = 0.1, .steps = 5000}), .clip_norm = 1}).Minimize(loss);
//   Adam({}).Minimize(generator_loss, generator.variables());      // and no others
//   AdamW({.groups = {{.pattern = "*/bias", .weight_decay = 0}}}).Minimize(loss);
//
// An optimizer's state consists of variables of the graph, named OPTIMIZER/SLOT/WEIGHT
// ("adam/m/dense1/kernel") and laid out like their weight. A second Adam of the graph calls its own adam_1. In the
// formulas below g is the gradient, all state starts at 0 unless stated otherwise, and ' marks values after the step;
// every formula reads the new state.
//
// A weight in bf16 has its state in f32, and its new value is computed in f32 and rounded once. Small updates are still
// lost to that rounding: to keep them, keep the weights in f32 and compute in bf16 (train/nn/precision.h).
//
// All options have:
//   learning_rate  a number, a schedule or a value (train/optim/rates.h)
//   clip_norm      if it is set, gradients are first clipped to this global norm (see ClipByGlobalNorm)
//   groups         weights that are treated otherwise
//   name           of the state, instead of "adam"
//   loss_scale     if it is set, the loss is scaled, and steps with infinite gradients are skipped (train/optim/loss_scale.h)
// Mistakes in options are recorded by Minimize.
//
// Thread safety: Minimize writes the graph, not the optimizer.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"
#include "meshwork/ir/value_list.h"
#include "meshwork/train/optim/loss_scale.h"
#include "meshwork/train/optim/rates.h"

namespace meshwork {

struct VariableGradient {
  Variable variable;
  Value gradient;  // of its type
};

// d loss / d v for all trainable float variables v, or those of `variables`, that a gradient of the loss reaches, in
// the order of declaration. Errors (recorded, nothing is returned): those of Gradients; there is no such variable; a
// value of `variables` that is no variable of the graph.
std::vector<VariableGradient> VariableGradients(const Value& loss, CallSite loc = CallSite::Current());
std::vector<VariableGradient> VariableGradients(const Value& loss, const ValueList& variables,
                                                CallSite loc = CallSite::Current());

// Options of some weights.
struct ParameterGroup {
  // Fits names of weights: * stands for any characters, ? for one, [ab] for a or b. If several groups fit a weight, the
  // last counts. Error: a pattern that fits no weight that is updated.
  std::string pattern = {};
  std::optional<Rate> learning_rate = {};
  std::optional<double> weight_decay = {};  // error where the optimizer has none
  std::optional<double> clip_norm =
      {};               // of the group's gradients alone; the norm of the other weights leaves them out
  bool frozen = false;  // they are not updated, and have no state
};

// How an optimizer updates one weight.
struct UpdateRule {
  struct Slot {
    std::string name;    // "m"
    double initial = 0;  // the initial value of each element
  };
  // One weight, its gradient, its state in the order of the slots, all in the dtype of the state (f32 for a weight in
  // bf16, else the weight's), and the number of this step, counted from 1 (i64 scalar; invalid unless counts_steps).
  struct Operands {
    Value weight = {}, gradient = {};
    std::span<const Value> state = {};
    Value step = {};
    Operand learning_rate = 0.0;  // a number, or a scalar of that dtype
    double weight_decay = 0;
    bool is_table =
        false;  // rows of the weight are looked up (Gather along dim 0), and nothing else reads it
  };

  std::string name = {};      // "Adam": in errors, and in small letters in the names of the state
  absl::Status options = {};  // what is wrong with the options, if anything
  Rate learning_rate = 1.0;
  std::optional<double> weight_decay = {};  // nothing: the formula has none
  std::optional<double> clip_norm = {};
  std::vector<ParameterGroup> groups = {};
  std::string scope = {};  // of the names of the state; empty: from `name`
  std::optional<LossScale> loss_scale = {};
  bool counts_steps = false;  // keeps the variable "adam/step"; a schedule asks for it, too
  std::vector<Slot> slots = {};
  // The new weight, then the new state in the order of the slots.
  std::function<std::vector<Value>(const Operands&)> formula = {};
};

// The values that Minimize has added to the graph. gradient_norm and learning_rate add theirs when they are called.
class Minimized {
 public:
  Minimized() = default;  // nothing, after a mistake
  Minimized(std::vector<VariableGradient> gradients, Value step, Operand learning_rate, Value loss_scale = {},
            Value skipped = {})
      : gradients_(std::move(gradients)),
        step_(std::move(step)),
        learning_rate_(std::move(learning_rate)),
        loss_scale_(std::move(loss_scale)),
        skipped_(std::move(skipped)) {}

  // The gradients before they are clipped, without the loss scale.
  const std::vector<VariableGradient>& gradients() const { return gradients_; }
  // The square root of the sum of their squares, f32 or f64 (GlobalNorm):
  //   g.Output("gradient_norm", Adam({}).Minimize(loss).gradient_norm());
  Value gradient_norm(CallSite loc = CallSite::Current()) const;
  // f64[]: the rate of this step, outside of groups.
  Value learning_rate(CallSite loc = CallSite::Current()) const;
  // i64[]: the number of this step, from 1; invalid if the optimizer counts none.
  const Value& step() const { return step_; }
  // f32[]: what the loss of this step was multiplied by; bool[]: whether the step was skipped. Invalid without a loss
  // scale.
  const Value& loss_scale() const { return loss_scale_; }
  const Value& skipped() const { return skipped_; }

 private:
  std::vector<VariableGradient> gradients_;
  Value step_;
  Operand learning_rate_ = 0.0;
  Value loss_scale_, skipped_;
};

// Any optimizer; the classes below only make its UpdateRule. Cheap to copy.
//
//   Optimizer optimizer = small ? Optimizer(Sgd({})) : Adam({});
class Optimizer {
 public:
  explicit Optimizer(UpdateRule rule) : rule_(std::move(rule)) {}
  // Updates every trainable float variable that a gradient of the loss reaches. A variable behind StopGradient is
  // frozen: it does not change, not even by weight decay, and has no state. Errors (recorded in the graph):
  // options out of range, such as a negative learning rate; those of Gradients and Graph::Update; a loss
  // whose gradient reaches no variable.
  Minimized Minimize(const Value& loss, CallSite loc = CallSite::Current()) const;
  // The same for these variables alone. Variables that are not trainable, are no floats, or that no gradient reaches,
  // do not change. Error, besides: a value that is no variable of the graph.
  Minimized Minimize(const Value& loss, const ValueList& variables, CallSite loc = CallSite::Current()) const;
  // Updates the variables by gradients of the user's own, for example those of VariableGradients after some change.
  // Errors (recorded): those of the options; a loss scale, because there is no loss; a gradient of another type than
  // its variable; a variable twice; those of Graph::Update.
  Minimized ApplyGradients(const std::vector<VariableGradient>& gradients,
                           CallSite loc = CallSite::Current()) const;

 private:
  // `variables`: null for all.
  Minimized Minimize(const Value& loss, const ValueList* variables, CallSite loc) const;

  UpdateRule rule_;
};

// In Sgd, Momentum and Nesterov, weight decay is part of the gradient, as in PyTorch: g + weight_decay w stands for g.

struct SgdOptions {
  Rate learning_rate = 0.01;
  double weight_decay = 0;
  std::optional<double> clip_norm = {};
  std::vector<ParameterGroup> groups = {};
  std::string name = {};
  std::optional<LossScale> loss_scale = {};
};
// w' = w - learning_rate g (Robbins and Monro, Annals of Mathematical Statistics 22, 1951).
class Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options);
};

struct MomentumOptions {
  Rate learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay = 0;
  std::optional<double> clip_norm = {};
  std::vector<ParameterGroup> groups = {};
  std::string name = {};
  std::optional<LossScale> loss_scale = {};
};
// m' = momentum m + g; w' = w - learning_rate m' (Polyak, USSR Computational Mathematics 4, 1964; Sutskever
// et al., ICML 2013, equations 1 and 2, with the rate outside of m). State "momentum/m/NAME".
class Momentum : public Optimizer {
 public:
  explicit Momentum(const MomentumOptions& options);
};

using NesterovOptions = MomentumOptions;
// m' = momentum m + g; w' = w - learning_rate (g + momentum m') (Nesterov's method as in Bengio et al.,
// arXiv 1212.0901, equation 7, with the rate outside of m). State "nesterov/m/NAME".
class Nesterov : public Optimizer {
 public:
  explicit Nesterov(const NesterovOptions& options);
};

struct AdagradOptions {
  Rate learning_rate = 0.01;
  double initial_accumulator = 0;
  double epsilon = 1e-10;
  std::optional<double> clip_norm = {};
  std::vector<ParameterGroup> groups = {};
  std::string name = {};
  std::optional<LossScale> loss_scale = {};
};
// a' = a + g²; w' = w - learning_rate g / (sqrt(a') + epsilon) (Duchi, Hazan and Singer, JMLR 12, 2011,
// figure 1 with the diagonal matrix). State "adagrad/a/NAME", which starts at initial_accumulator. Where g is 0 nothing
// changes, so that a GPU touches no rows of tables but those that a batch looks up (docs/optimizers.md).
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const AdagradOptions& options);
};

struct RmsPropOptions {
  Rate learning_rate = 1e-3;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-8;
  bool centered = false;
  std::optional<double> clip_norm = {};
  std::vector<ParameterGroup> groups = {};
  std::string name = {};
  std::optional<LossScale> loss_scale = {};
};
// v' = rho v + (1 - rho) g²; m' = momentum m + learning_rate g / sqrt(v' + epsilon); w' = w - m'
// (Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5, 2012). Centered: also
// a' = rho a + (1 - rho) g, and v' - a'² instead of v' in the root (Graves, arXiv 1308.0850, equations 38
// to 45), but at least 0 despite rounding. State "rmsprop/v/NAME"; "rmsprop/a/NAME" if centered,
// "rmsprop/m/NAME" if there is momentum.
class RmsProp : public Optimizer {
 public:
  explicit RmsProp(const RmsPropOptions& options);
};

struct AdamOptions {
  Rate learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool lazy = false;
  std::optional<double> clip_norm = {};
  std::vector<ParameterGroup> groups = {};
  std::string name = {};
  std::optional<LossScale> loss_scale = {};
};
// m' = beta1 m + (1 - beta1) g; v' = beta2 v + (1 - beta2) g²; at step t, from 1,
// w' = w - learning_rate (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon)
// (Kingma and Ba, arXiv 1412.6980, Algorithm 1). State "adam/step", "adam/m/NAME" and "adam/v/NAME".
//
// lazy: in a table, elements whose gradient is 0 keep w, m and v, as in TensorFlow's LazyAdam, and do not decay; this
// holds for all rows that a batch does not look up. A table is a weight that only Gather along dim 0 reads. A GPU then
// touches no other rows (docs/optimizers.md).
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options);
};

struct AdamWOptions {
  Rate learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  bool lazy = false;
  std::optional<double> clip_norm = {};
  std::vector<ParameterGroup> groups = {};
  std::string name = {};
  std::optional<LossScale> loss_scale = {};
};
// Adam with w' smaller by another learning_rate · weight_decay · w (Loshchilov and Hutter, arXiv 1711.05101,
// Algorithm 2; its λ is this product, because its rate and schedule are one number here). Every weight
// decays, biases too. State as Adam's, under "adamw/".
class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options);
};

using LambOptions = AdamWOptions;
// AdamW whose update u of a weight is scaled to the length of the weight: w' = w - learning_rate |w| / |u| u,
// with factor 1 instead of |w| / |u| if one of the lengths is 0 (You et al., arXiv 1904.00962, Algorithm 2,
// with the identity for φ). The lengths are those of whole weights, so that a sharded weight costs an
// all-reduce of two numbers. State as Adam's, under "lamb/". It has no lazy form.
class Lamb : public Optimizer {
 public:
  explicit Lamb(const LambOptions& options);
};

}  // namespace meshwork
