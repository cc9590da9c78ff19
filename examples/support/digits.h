// A program that trains a model on handwritten digits: what mlp_mnist and cnn_mnist have in common. See
// --help of either.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshwork.h"

namespace meshwork {

struct DigitsModel {
  std::string_view program;  // "mlp_mnist"
  std::string_view about;    // the first line of --help
  std::string_view title;    // of its plots: "MLP"
  std::string_view mesh_help;
  std::string_view optimizer = "adam";  // those of its --optimizer and --lr
  double learning_rate = 1e-3;
  Shape image = {784};  // of one image, as `build` takes it
  // images: f[b,image…], labels: i32[b] -> outputs "loss" and "accuracy", scalars of `dtype`. Mistakes are
  // recorded in the graph.
  void (*build)(Graph& graph, int64_t batch_size, DType dtype, const Optimizer& optimizer);
  // The variables that are the model, not the optimizer.
  std::vector<std::string> weights;
};

// The program: reads flags, trains, tests, writes what was asked for. Returns its exit code; 2, with one line
// on standard error and no file touched: something about the input is wrong.
int RunDigits(const DigitsModel& model, int argc, char** argv);

// "adam", "adamw", "sgd", …
std::vector<std::string> OptimizerNames();
// One of them, with its own defaults but for the rate. REQUIRES: `name` is among OptimizerNames().
Optimizer MakeOptimizer(std::string_view name, double learning_rate);

}  // namespace meshwork
