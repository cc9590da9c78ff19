// cnn_step: a training step of the CNN of examples/cnn_mnist on several meshes, compared with one device. See
// --help.
#include "benchmarks/step/step.h"
#include "examples/support/cnn.h"
#include "meshwork.h"

namespace meshwork {
namespace {

constexpr double kLearningRate = 0.1;

Graph CnnGraph(const Mesh& mesh, int64_t batch) {
  Graph graph(mesh);
  BuildCnn(graph, batch, {}, Sgd({.learning_rate = kLearningRate}));
  return graph;
}

}  // namespace

const StepModel& TheStepModel() {
  static const auto* model = new StepModel{
      .program = "cnn_step",
      .about =
          "Times a training step of a convolutional network on MNIST (32 filters of 3x3, max-pool, 64, 10,\n"
          "SGD, f32) on meshes of virtual CPU devices beside one device. All take turns, a round of steps\n"
          "each.",
      .batches = "64",
      .meshes = "batch=1 batch=8 batch=4,height=2 height=8",
      .graph = CnnGraph,
      .image = {28, 28, 1},
      .learning_rate = kLearningRate,
      .weights = CnnWeights()};
  return *model;
}

}  // namespace meshwork
