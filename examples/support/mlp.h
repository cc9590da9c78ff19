// The model: one global program, whatever the mesh.
#pragma once

#include <string>
#include <vector>

#include "meshwork/train.h"

namespace meshwork {

// images: f[b,784], labels: i32[b] -> outputs "loss" and "accuracy", scalars of `dtype`. An axis "batch" of
// the mesh shards the examples; an axis "model" shards the first kernel by columns, the second by rows.
// Mistakes are recorded in the graph.
void BuildMlp(Graph& graph, int64_t batch_size, const Precision& precision, const Optimizer& optimizer);

// The names of the model's variables, without the optimizer's: "dense1/kernel", "dense1/bias", …
std::vector<std::string> MlpWeights();

}  // namespace meshwork
