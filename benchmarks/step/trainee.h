// What trains a model step by step: meshwork on a mesh, or the step written by hand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor.h"

namespace meshwork {

// Of StepModel::weights in turn.
using Weights = std::vector<std::vector<float>>;

// Used by the thread that made it.
class Trainee {
 public:
  virtual ~Trainee() = default;
  // Trains on images f32[batch,image…] and labels i32[batch].
  virtual absl::Status Step(const Tensor& images, const Tensor& labels) = 0;
  virtual absl::StatusOr<Weights> CurrentWeights() const = 0;
};

// All start from the same weights. `variant` as in StepOptions. Errors: it is no mesh, or one that the
// program does not fit.
absl::StatusOr<std::unique_ptr<Trainee>> MakeTrainee(const std::string& variant, int64_t batch, int workers);

// How far a weight of `a` is from that of `b`, in learning rates, about which Adam moves it in a step: the
// mean over a tensor, the largest of all tensors. The largest of all weights would say nothing: rounding
// decides whether a ReLU that is at 0 lets a gradient pass, and with it where the weights of a unit go.
double Distance(const Weights& a, const Weights& b);

}  // namespace meshwork
