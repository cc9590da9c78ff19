// A trainer of a model, step by step: meshwork on a mesh, or the step written by hand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

// The values of StepModel::weights, in the same order.
using Weights = std::vector<std::vector<float>>;

// Is used only by the thread that made it.
class Trainee {
 public:
  virtual ~Trainee() = default;
  // Trains on images f32[batch,image…] and labels i32[batch].
  virtual absl::Status Step(const Tensor& images, const Tensor& labels) = 0;
  virtual absl::StatusOr<Weights> CurrentWeights() const = 0;
};

// All trainees start from the same weights. `variant`: as in StepOptions. Errors: `variant` is not a mesh, or
// a mesh that does not fit the program.
absl::StatusOr<std::unique_ptr<Trainee>> MakeTrainee(const std::string& variant, int64_t batch, int workers);

// The distance between the weights of `a` and `b`, in learning rates: Adam moves a weight by about one
// learning rate in a step. It is the mean over a tensor, and the largest of these means. The largest distance
// of a single weight would be meaningless: rounding decides whether a ReLU at 0 lets a gradient pass, and
// thereby where the weights of a unit go.
double Distance(const Weights& a, const Weights& b);

}  // namespace meshwork
