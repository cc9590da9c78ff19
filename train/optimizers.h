// Optimizers: gradients of a loss, and the updates of the variables that it depends on.
//
//   Adam({.learning_rate = 1e-3}).Minimize(loss);
//   Momentum({.learning_rate = 0.1, .clip_norm = 1}).Minimize(loss);
//
// An optimizer's state consists of variables of the graph, named OPTIMIZER/SLOT/WEIGHT
// ("adam/m/dense1/kernel") and laid out like their weight. In the formulas below g is the gradient, all state
// starts at 0 unless stated otherwise, and ' marks values after the step; every formula reads the new state.
//
// All options have clip_norm: if it is set, gradients are first clipped to this global norm (see
// ClipByGlobalNorm). Mistakes in options are recorded by Minimize.
//
// Thread safety: Minimize writes the graph, not the optimizer.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// What an optimizer does with one weight.
struct UpdateRule {
  struct Slot {
    std::string name;    // "m"
    double initial = 0;  // the initial value of each element
  };
  // One weight, its gradient, its state in the order of the slots, and the number of this step, counted from
  // 1 (i64 scalar; invalid unless counts_steps).
  struct Operands {
    Value weight, gradient;
    std::span<const Value> state;
    Value step;
  };

  std::string name;      // "Adam": in errors, and in small letters in the names of the state
  absl::Status options;  // what is wrong with the options, if anything
  std::optional<double> clip_norm = {};
  bool counts_steps = false;  // keeps the variable "adam/step"
  std::vector<Slot> slots = {};
  // The new weight, then the new state in the order of the slots.
  std::function<std::vector<Value>(const Operands&)> formula;
};

// Any optimizer; the classes below only make its UpdateRule. Cheap to copy.
//
//   Optimizer optimizer = small ? Optimizer(Sgd({})) : Adam({});
class Optimizer {
 public:
  explicit Optimizer(UpdateRule rule) : rule_(std::move(rule)) {}
  // Updates every float variable that a gradient of the loss reaches. A variable behind StopGradient is
  // frozen: it does not change, not even by weight decay, and has no state. Errors (recorded in the graph):
  // options out of range, such as a negative learning rate; those of Gradients and Graph::Update; a loss
  // whose gradient reaches no variable.
  void Minimize(const Value& loss, CallSite loc = CallSite::Current()) const;

 private:
  UpdateRule rule_;
};

// w' = w - learning_rate g (Robbins and Monro, Annals of Mathematical Statistics 22, 1951).
class Sgd : public Optimizer {
 public:
  struct Options {
    double learning_rate = 0.01;
    std::optional<double> clip_norm = {};
  };
  explicit Sgd(Options options);
};

// m' = momentum m + g; w' = w - learning_rate m' (Polyak, USSR Computational Mathematics 4, 1964; Sutskever
// et al., ICML 2013, equations 1 and 2, with the rate outside of m). State "momentum/m/NAME".
class Momentum : public Optimizer {
 public:
  struct Options {
    double learning_rate = 0.01;
    double momentum = 0.9;
    std::optional<double> clip_norm = {};
  };
  explicit Momentum(Options options);
};

// m' = momentum m + g; w' = w - learning_rate (g + momentum m') (Nesterov's method as in Bengio et al.,
// arXiv 1212.0901, equation 7, with the rate outside of m). State "nesterov/m/NAME".
class Nesterov : public Optimizer {
 public:
  using Options = Momentum::Options;
  explicit Nesterov(Options options);
};

// a' = a + g²; w' = w - learning_rate g / (sqrt(a') + epsilon) (Duchi, Hazan and Singer, JMLR 12, 2011,
// figure 1 with the diagonal matrix). State "adagrad/a/NAME", which starts at initial_accumulator.
class Adagrad : public Optimizer {
 public:
  struct Options {
    double learning_rate = 0.01;
    double initial_accumulator = 0;
    double epsilon = 1e-10;
    std::optional<double> clip_norm = {};
  };
  explicit Adagrad(Options options);
};

// v' = rho v + (1 - rho) g²; m' = momentum m + learning_rate g / sqrt(v' + epsilon); w' = w - m'
// (Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5, 2012). Centered: also
// a' = rho a + (1 - rho) g, and v' - a'² instead of v' in the root (Graves, arXiv 1308.0850, equations 38
// to 45), but at least 0 despite rounding. State "rmsprop/v/NAME"; "rmsprop/a/NAME" if centered,
// "rmsprop/m/NAME" if there is momentum.
class RmsProp : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double rho = 0.9;
    double momentum = 0;
    double epsilon = 1e-8;
    bool centered = false;
    std::optional<double> clip_norm = {};
  };
  explicit RmsProp(Options options);
};

// m' = beta1 m + (1 - beta1) g; v' = beta2 v + (1 - beta2) g²; at step t, from 1,
// w' = w - learning_rate (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon)
// (Kingma and Ba, arXiv 1412.6980, Algorithm 1). State "adam/step", "adam/m/NAME" and "adam/v/NAME".
class Adam : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    std::optional<double> clip_norm = {};
  };
  explicit Adam(Options options);
};

// Adam with w' smaller by another learning_rate · weight_decay · w (Loshchilov and Hutter, arXiv 1711.05101,
// Algorithm 2; its λ is this product, because its rate and schedule are one number here). Every weight
// decays, biases too. State as Adam's, under "adamw/".
class AdamW : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01;
    std::optional<double> clip_norm = {};
  };
  explicit AdamW(Options options);
};

// AdamW whose update u of a weight is scaled to the length of the weight: w' = w - learning_rate |w| / |u| u,
// with factor 1 instead of |w| / |u| if one of the lengths is 0 (You et al., arXiv 1904.00962, Algorithm 2,
// with the identity for φ). The lengths are those of whole weights, so that a sharded weight costs an
// all-reduce of two numbers. State as Adam's, under "lamb/".
class Lamb : public Optimizer {
 public:
  using Options = AdamW::Options;
  explicit Lamb(Options options);
};

}  // namespace meshwork
