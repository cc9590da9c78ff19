// mlp_step: a training step of the MNIST MLP beside the same step written by hand for one device
// (benchmarks/hand_written_step.h). See --help.
#include "benchmarks/hand_written_step.h"
#include "benchmarks/step/step.h"
#include "examples/support/mlp.h"
#include "meshwork.h"

namespace meshwork {
namespace {

constexpr double kLearningRate = 1e-3;  // that of HandWrittenMlp

class HandWrittenTrainee : public Trainee {
 public:
  HandWrittenTrainee(int64_t batch, int workers, const Weights& start)
      : mlp_(static_cast<int>(batch), workers, start) {}
  absl::Status Step(const Tensor& images, const Tensor& labels) override {
    mlp_.Step(images.values<float>().data(), labels.values<int32_t>().data());
    return absl::OkStatus();
  }
  absl::StatusOr<Weights> CurrentWeights() const override { return mlp_.weights(); }

 private:
  HandWrittenMlp mlp_;
};

Graph MlpGraph(const Mesh& mesh, int64_t batch) {
  Graph graph(mesh);
  BuildMlp(graph, batch, {}, Adam({.learning_rate = kLearningRate}));
  return graph;
}

}  // namespace

const StepModel& TheStepModel() {
  static const auto* model = new StepModel{
      .program = "mlp_step",
      .about =
          "Times a training step of the MNIST MLP (784-700-500-10, Adam, f32) on meshes of virtual CPU\n"
          "devices beside the same step written by hand for one device, with the same libraries and as\n"
          "many threads. All take turns, a round of steps each.",
      .batches = "128,1024,4096",
      .meshes = "batch=1 batch=8 batch=4,model=2 batch=2,model=4 batch=8/unshared",
      .graph = MlpGraph,
      .image = {784},
      .learning_rate = kLearningRate,
      .weights = MlpWeights(),
      .by_hand = [](int64_t batch, int workers, const Weights& start) -> std::unique_ptr<Trainee> {
        return std::make_unique<HandWrittenTrainee>(batch, workers, start);
      }};
  return *model;
}

}  // namespace meshwork
