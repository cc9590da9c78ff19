// A program that times a training step of a model on digits on meshes of virtual CPU devices, in one process
// and in turns. It trains a StepModel; mlp_step.cc and cnn_step.cc define one each.
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
  std::string_view batches, meshes;  // defaults of --batch and --meshes
  // The program that all variants compute, of images f32[batch,image…] and labels i32[batch].
  Graph (*graph)(const Mesh& mesh, int64_t batch);
  Shape image;
  double learning_rate;
  std::vector<std::string> weights;  // its variables, without the optimizer's
  // The same step written by hand, from these weights; the meshes are compared with it. Null: there is none,
  // and the meshes are compared with the first mesh.
  std::unique_ptr<Trainee> (*by_hand)(int64_t batch, int workers, const Weights& start) = nullptr;
};

// The main function of the program.
const StepModel& TheStepModel();

}  // namespace meshwork
