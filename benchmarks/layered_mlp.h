// The program whose compilation is measured: a training step of an MLP of L layers, on a mesh batch x model.
#pragma once

#include <cstdint>
#include <string>

#include "meshwork.h"

namespace meshwork {

// "batch=4,model=2" for 2^3 devices: the axes are as equal as they can be. REQUIRES: 0 <= log2_devices <= 40.
std::string SquareMesh(int log2_devices);

// The layout of the weights of each layer.
enum class WeightLayout {
  kByModel,          // kernels by columns and by rows in turn, along `model`; the examples lie along `batch`
  kByBatchAndModel,  // as kByModel, but `batch` also shards the weights' other dim in storage
  kByRows,           // stored in blocks of rows along both axes; the examples lie along both, too
  kByRowsInHost,     // stored so along `model` alone: hybrid sharding, `batch` hosts of `model` devices
};

struct LayeredMlpOptions {
  int layers = 4;
  // Examples and units of a layer per device, so that blocks have the same size on every mesh.
  int64_t local_examples = 16, local_units = 128;
  std::string optimizer = "adam";  // or "sgd"
  WeightLayout weights = WeightLayout::kByModel;
  Gathering gather = Gathering::kOnUse;  // for weights whose layout only says where they are stored
};

// x: f32[b,n], labels: i32[b] -> loss. Layers n -> n with bias and ReLU (none after the last layer). If all
// devices cut the rows, there are at least as many units as devices. Mistakes are recorded in the graph.
void BuildLayeredMlp(Graph& graph, const LayeredMlpOptions& options);

}  // namespace meshwork
