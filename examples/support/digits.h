// A program that trains a model on handwritten digits: the common part of mlp_mnist and cnn_mnist. See
// --help of either.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshwork/train.h"

namespace meshwork {

struct DigitsModel {
  std::string_view program;  // "mlp_mnist"
  std::string_view about;    // the first line of --help
  std::string_view title;    // of its plots: "MLP"
  std::string_view mesh_help;
  std::string_view optimizer = "adam";  // the default of --optimizer; below, that of --lr
  double learning_rate = 1e-3;
  Shape image = {784};  // of one image, as `build` takes it
  // images: f[b,image…], labels: i32[b] -> outputs "loss" and "accuracy", scalars of `dtype`. Mistakes are
  // recorded in the graph.
  void (*build)(Graph& graph, int64_t batch_size, const Precision& precision, const Optimizer& optimizer);
  // The names of the model's variables, without the optimizer's.
  std::vector<std::string> weights;
};

// The program: reads flags, trains, tests, writes the files that the flags ask for. Returns its exit code. If
// the input is wrong, it writes one line to standard error, touches no file, and returns 2.
int RunDigits(const DigitsModel& model, int argc, char** argv);

// "adam", "adamw", "sgd", …
std::vector<std::string> OptimizerNames();
// The optimizer of this name with its own defaults, except the rate. REQUIRES: OptimizerNames() has `name`.
Optimizer MakeOptimizer(std::string_view name, double learning_rate);

}  // namespace meshwork
