// What trains the MNIST MLP step by step: meshwork on a mesh, or the step written by hand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/tensor.h"

namespace meshwork {

// Kernel and bias of each layer in turn.
using Weights = std::vector<std::vector<float>>;

// Used by the thread that made it.
class Trainee {
 public:
  virtual ~Trainee() = default;
  // Trains on images f32[batch,784] and labels i32[batch].
  virtual absl::Status Step(const Tensor& images, const Tensor& labels) = 0;
  virtual absl::StatusOr<Weights> CurrentWeights() const = 0;
};

// All start from the same weights. `variant` as in StepOptions. Errors: it is no mesh, or one that the
// program does not fit.
absl::StatusOr<std::unique_ptr<Trainee>> MakeTrainee(const std::string& variant, int64_t batch, int workers);

// The largest distance of a tensor of `a` from that of `b`, relative to it.
double Distance(const Weights& a, const Weights& b);

// What a step asks of any machine: what is left of it when it is compiled for one device.
struct Floors {
  double gflop = 0;      // floating-point operations, in 10^9
  double megabytes = 0;  // inputs, read once, and variables, read and written once
};
absl::StatusOr<Floors> FloorsOf(int64_t batch);

}  // namespace meshwork
