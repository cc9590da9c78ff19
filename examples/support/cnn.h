// A small convolutional network: one global program, whatever the mesh.
#pragma once

#include <string>
#include <vector>

#include "meshwork/train.h"

namespace meshwork {

// images: f[b,28,28,1], labels: i32[b] -> outputs "loss" and "accuracy", scalars of `dtype`. The layers: 32
// filters of 3×3, ReLU, max-pool of 2×2, Dense of 64, ReLU, Dense of 10. An axis "batch" of the mesh shards
// the examples, an axis "height" the rows of each image. Mistakes are recorded in the graph.
void BuildCnn(Graph& graph, int64_t batch_size, const Precision& precision, const Optimizer& optimizer);
// The same without an optimizer: nothing is trained.
void BuildCnn(Graph& graph, int64_t batch_size, const Precision& precision);

// The names of the model's variables, without the optimizer's: "conv1/kernel", "conv1/bias", …
std::vector<std::string> CnnWeights();

}  // namespace meshwork
