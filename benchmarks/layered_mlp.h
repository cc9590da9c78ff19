// The program whose compilation is measured: a training step of an MLP of L layers, on a mesh batch x model.
#pragma once

#include <cstdint>
#include <string>

#include "meshwork.h"

namespace meshwork {

// "batch=4,model=2" for 2^3 devices: the axes are as equal as they can be. REQUIRES: 0 <= log2_devices <= 40.
std::string SquareMesh(int log2_devices);

// How the weights of each layer lie.
enum class WeightLayout {
  kByModel,          // kernels by columns and by rows in turn, along `model`; the examples lie along `batch`
  kByBatchAndModel,  // as kByModel, and their other dim along `batch`, along which weights are only kept
  kByRows,           // along both axes, along which weights are only kept; the examples lie along both, too
  kByRowsInHost,     // the same along `model` alone: hybrid sharded, with `batch` hosts of `model` devices
};

struct LayeredMlpOptions {
  int layers = 4;
  // Of each device: examples, and units of a layer, so that blocks are the same on every mesh.
  int64_t local_examples = 16, local_units = 128;
  std::string optimizer = "adam";  // or "sgd"
  WeightLayout weights = WeightLayout::kByModel;
  Gathering gather = Gathering::kOnUse;  // of weights that are only kept as they lie
};

// x: f32[b,n], labels: i32[b] -> loss. Layers n -> n with bias and ReLU (none after the last), with no fewer
// units than devices where all devices cut the rows. Mistakes are recorded in the graph.
void BuildLayeredMlp(Graph& graph, const LayeredMlpOptions& options);

}  // namespace meshwork
