// "Use tf.distribute.Strategy with custom training loops", of TensorFlow's guide "Distributed training": a step is
// written for one replica, and the losses of the replicas are reduced. See --help.
#include "examples/strategies/flags.h"

namespace mw = meshwork;

constexpr int64_t kGlobalBatchSize = 10;

int main(int argc, char** argv) {
  const mw::StrategyFlags flags(argc, argv, "custom_loop", "Trains a linear model replica by replica.");
  return flags.Main([&](const mw::Strategy& strategy) -> absl::Status {
    mw::Graph graph = mw::NewGraph();
    const mw::Value x = graph.Input("x", flags.dtype, {kGlobalBatchSize, 1});
    const mw::Value y = graph.Input("y", flags.dtype, {kGlobalBatchSize, 1});
    const mw::Dense dense(graph, "dense", 1, 1, {.dtype = flags.dtype});

    const auto train_step = [&](mw::ReplicaContext& replica, const std::vector<mw::Value>& part) {
      const mw::Value loss = replica.AverageLoss(mw::Square(dense(part[0]) - part[1]), kGlobalBatchSize);
      replica.Minimize(mw::Sgd({.learning_rate = 0.1}), loss);
      return std::vector<mw::Value>{loss};
    };
    const std::vector<mw::PerReplica> losses = strategy.Run(graph, {x, y}, train_step);
    MESHWORK_RETURN_IF_ERROR(graph.status());
    graph.Output("loss", strategy.Reduce(mw::ReplicaReduce::kSum, losses[0]));
    MESHWORK_ASSIGN_OR_RETURN(mw::Session session, mw::NewSession(graph));

    const mw::Tensor ones = mw::Tensor::Full({flags.dtype, {100, 1}}, 1);
    MESHWORK_ASSIGN_OR_RETURN(const mw::Pipeline batches,
                              mw::BatchesOf({{"x", ones}, {"y", ones}}, {.batch_size = kGlobalBatchSize}));
    MESHWORK_ASSIGN_OR_RETURN(const mw::Pipeline data, mw::DistributeDataset(strategy, batches));
    for (int64_t epoch = 0; epoch < flags.epochs; ++epoch) {
      for (const mw::Example& b : data) {
        MESHWORK_ASSIGN_OR_RETURN(const mw::StepResult result, session.Run({{"x", b["x"]}, {"y", b["y"]}}));
        if (strategy.is_chief()) fmt::print("loss {:.{}g}\n", result.scalar("loss").value(), flags.digits);
      }
    }
    return absl::OkStatus();
  });
}
