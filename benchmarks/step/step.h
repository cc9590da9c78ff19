// A program that times a training step of a model on digits on meshes of virtual CPU devices, in one process
// and in turns. What it trains is a StepModel, which mlp_step.cc and cnn_step.cc define.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/step/trainee.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

struct StepModel {
  std::string_view program;          // "mlp_step"
  std::string_view about;            // the first lines of --help
  std::string_view batches, meshes;  // what --batch and --meshes are at first
  // The program that all variants compute, of images f32[batch,image…] and labels i32[batch].
  Graph (*graph)(const Mesh& mesh, int64_t batch);
  Shape image;
  double learning_rate;
  std::vector<std::string> weights;  // its variables, but for the optimizer's
  // The same step by hand, from these weights, beside which the meshes are put. Null: there is none, and they
  // are put beside the first of them.
  std::unique_ptr<Trainee> (*by_hand)(int64_t batch, int workers, const Weights& start) = nullptr;
};

// The program's own.
const StepModel& TheStepModel();

}  // namespace meshwork
