// The model: one global program, whatever the mesh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshwork.h"

namespace meshwork {

// images: f[b,784], labels: i32[b] -> outputs "loss" and "accuracy", scalars of `dtype`. An axis "batch" of
// the mesh shards the examples; an axis "model" shards the first kernel by columns, the second by rows.
// Mistakes are recorded in the graph.
void BuildMlp(Graph& graph, int64_t batch_size, DType dtype, const Optimizer& optimizer);

// "adam", "adamw", "sgd", …
std::vector<std::string> OptimizerNames();
// One of them, with its own defaults but for the rate. REQUIRES: `name` is among OptimizerNames().
Optimizer MakeOptimizer(std::string_view name, double learning_rate);

// The variables that are the model, not the optimizer: "dense1/kernel", "dense1/bias", …
std::vector<std::string> MlpWeights();

}  // namespace meshwork
