// Optimizers: gradients of a loss and the updates of the variables it depends on.
//
//   Adam({.learning_rate = 1e-3}).Minimize(loss);
//
// An optimizer's state is variables of the graph, laid out like the weight they belong to.
#pragma once

#include "ops/graph.h"

namespace meshwork {

// w -= learning_rate · gradient
class Sgd {
 public:
  struct Options {
    double learning_rate = 0.01;
  };
  explicit Sgd(Options options) : options_(options) {}
  // Updates every f32 or f64 variable that the loss depends on. Errors (recorded in the graph): those
  // of Gradients and Graph::Update; a loss that depends on no variable.
  void Minimize(const Value& loss, CallSite loc = CallSite::Current()) const;

 private:
  Options options_;
};

// Kingma and Ba, arXiv 1412.6980, Algorithm 1. State: "adam/step", and per weight "adam/m/NAME" and
// "adam/v/NAME".
class Adam {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
  };
  explicit Adam(Options options) : options_(options) {}
  // As Sgd::Minimize.
  void Minimize(const Value& loss, CallSite loc = CallSite::Current()) const;

 private:
  Options options_;
};

}  // namespace meshwork
