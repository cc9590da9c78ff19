// TensorFlow's tutorial "Custom training with tf.distribute.Strategy": a convolutional network, a step of training and
// one of testing that are written for one replica, and metrics. The last batch of an epoch is short. See --help.
#include "examples/strategies/flags.h"

namespace mw = meshwork;
using Values = std::vector<mw::Value>;

constexpr int64_t kBatch = 50;

struct Network {
  mw::Conv2D conv1, conv2;
  mw::Dense hidden, logits;
  explicit Network(mw::Graph& g)
      : conv1(g, "conv1", 1, 32, {3, 3}),
        conv2(g, "conv2", 32, 64, {3, 3}),
        hidden(g, "hidden", 5 * 5 * 64, 64),
        logits(g, "logits", 64, 10) {}
  mw::Value operator()(const mw::Value& images) const {
    const mw::Value x = mw::MaxPool(mw::Relu(conv1(mw::Reshape(images, {-1, 28, 28, 1}))), {2, 2});
    return logits(mw::Relu(hidden(mw::Flatten(mw::MaxPool(mw::Relu(conv2(x)), {2, 2})))));
  }
};

int main(int argc, char** argv) {
  const mw::StrategyFlags flags(argc, argv, "custom_training",
                                "Trains a convolutional network replica by replica.");
  return flags.Main([&](const mw::Strategy& strategy) -> absl::Status {
    mw::Graph graph = mw::NewGraph();
    graph.SetPrecision({.compute = flags.dtype, .variables = flags.dtype});
    const mw::Value images = graph.Input("image", flags.dtype, {kBatch, 784}),
                    labels = graph.Input("label", mw::I32, {kBatch});
    const mw::Value rows = graph.Input("rows", mw::I64, {});
    const Network network(graph);

    const auto step = [&](mw::ReplicaContext& replica, const Values& part) -> Values {
      const mw::Value logits = network(part[0]);
      const mw::Value loss = replica.AverageLoss(
          mw::SparseSoftmaxCrossEntropy(logits, part[1], {.reduction = mw::Reduction::kNone}));
      replica.Minimize(mw::Adam({}), loss);
      const mw::Value right = mw::Equal(mw::Argmax(logits, -1), part[1]);
      return {loss, mw::ReduceSum(mw::Cast(mw::And(right, replica.row_mask()), mw::F64))};
    };
    const std::vector<mw::PerReplica> results = strategy.Run(graph, {images, labels}, step, rows);
    MESHWORK_RETURN_IF_ERROR(graph.status());
    graph.Output("loss", strategy.Reduce(mw::ReplicaReduce::kSum, results[0]));
    graph.Output("right", strategy.Reduce(mw::ReplicaReduce::kSum, results[1]));
    MESHWORK_ASSIGN_OR_RETURN(mw::Session session, mw::NewSession(graph));

    MESHWORK_ASSIGN_OR_RETURN(const mw::MnistData digits, flags.Digits());
    const mw::DistributeOptions filled_up{.batch_size = kBatch, .rows = "rows"};
    const auto epoch = [&](const mw::Dataset& data, bool trains,
                           uint64_t seed) -> absl::StatusOr<std::pair<double, double>> {
      MESHWORK_ASSIGN_OR_RETURN(
          const mw::Pipeline batches,
          mw::DistributeDataset(strategy, mw::Pipeline::From(data).Shuffle(data.size(), seed).Batch(kBatch),
                                filled_up));
      double loss = 0, right = 0;
      for (const mw::Example& b : batches) {
        const mw::Feeds feeds = {{"image", b["image"]}, {"label", b["label"]}, {"rows", b["rows"]}};
        MESHWORK_ASSIGN_OR_RETURN(const mw::StepResult result,
                                  trains ? session.Run(feeds) : session.Evaluate(feeds));
        loss += result.scalar("loss").value() * static_cast<double>(b["rows"].values<int64_t>()[0]);
        right += result.scalar("right").value();
      }
      return std::pair(loss / static_cast<double>(data.size()), right / static_cast<double>(data.size()));
    };
    for (int64_t i = 0; i < flags.epochs; ++i) {
      MESHWORK_ASSIGN_OR_RETURN(const auto trained, epoch(digits.train, true, static_cast<uint64_t>(i)));
      MESHWORK_ASSIGN_OR_RETURN(const auto tested, epoch(digits.test, false, 0));
      if (strategy.is_chief())
        fmt::print("epoch {}, loss {:.{}g}, accuracy {:.4f}, test loss {:.{}g}, test accuracy {:.4f}\n",
                   i + 1, trained.first, flags.digits, trained.second, tested.first, flags.digits,
                   tested.second);
    }
    return absl::OkStatus();
  });
}
