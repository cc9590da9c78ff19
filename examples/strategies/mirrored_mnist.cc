// TensorFlow's tutorial "Distributed training with Keras", the demonstration of MirroredStrategy: a convolutional
// network on MNIST, with a falling rate, checkpoints, and an evaluation. See --help.
#include <filesystem>

#include "examples/strategies/flags.h"

namespace mw = meshwork;

constexpr int64_t kBatch = 64;

double Decay(int64_t epoch) { return epoch < 3 ? 1e-3 : epoch < 7 ? 1e-4 : 1e-5; }

int main(int argc, char** argv) {
  const mw::StrategyFlags flags(argc, argv, "mirrored_mnist",
                                "Trains a convolutional network on MNIST by Fit.");
  return flags.Main([&](const mw::Strategy& strategy) -> absl::Status {
    mw::Graph graph = mw::NewGraph();
    graph.SetPrecision({.compute = flags.dtype, .variables = flags.dtype});
    const mw::Value images = graph.Input("image", flags.dtype, {kBatch, 784}),
                    labels = graph.Input("label", mw::I32, {kBatch});
    const mw::Value rate = graph.Input("rate", mw::F64, {});
    const mw::Value x = mw::MaxPool(
        mw::Relu(mw::Conv2D(graph, "conv", 1, 32, {3, 3})(mw::Reshape(images, {-1, 28, 28, 1}))), {2, 2});
    const mw::Value logits = mw::Sequential(mw::Dense(graph, "hidden", 13 * 13 * 32, 64), mw::Relu,
                                            mw::Dense(graph, "logits", 64, 10))(mw::Flatten(x));
    const mw::Value loss = mw::SparseSoftmaxCrossEntropy(logits, labels);
    mw::Adam({.learning_rate = rate}).Minimize(loss);
    graph.Output("loss", loss);
    graph.Output("accuracy", mw::AccuracyMetric(graph, "accuracy").Update(logits, labels));
    MESHWORK_ASSIGN_OR_RETURN(mw::Session session, mw::NewSession(graph));

    MESHWORK_ASSIGN_OR_RETURN(const mw::MnistData digits, flags.Digits());
    const mw::Pipeline train =
        mw::Pipeline::From(digits.train).Shuffle(10000, /*seed=*/1).Batch(kBatch).Prefetch(2);
    const mw::Pipeline test = mw::Pipeline::From(digits.test).Batch(kBatch);
    const std::string folder = "training_checkpoints";  // which all processes see
    const auto print = [&](mw::FitState& state) {
      if (strategy.is_chief())
        fmt::print("epoch {}: rate {}, loss {:.{}g}\n", state.epoch() + 1, Decay(state.epoch()),
                   state.last().at("loss"), flags.digits);
      return absl::OkStatus();
    };
    const auto set_rate = [](mw::FitState& state) {
      state.Feed("rate", mw::Tensor::Full({mw::F64, {}}, Decay(state.epoch())));
      return absl::OkStatus();
    };
    MESHWORK_RETURN_IF_ERROR(
        mw::Fit(session, train,
                {.epochs = flags.epochs,
                 .callbacks = {mw::Lambdas({.on_epoch_begin = set_rate, .on_epoch_end = print}),
                               mw::LastCheckpoint({.dir = folder})},
                 .fed = {{"rate", mw::Tensor::Full({mw::F64, {}}, Decay(0))}}})
            .status());
    MESHWORK_RETURN_IF_ERROR(session.Restore(folder).status());
    MESHWORK_ASSIGN_OR_RETURN(const mw::Metrics result, mw::Evaluate(session, test));
    if (strategy.is_chief()) {
      fmt::print("test loss {:.{}g}, accuracy {:.4f}\n", result.at("loss"), flags.digits,
                 result.at("accuracy"));
      std::filesystem::remove_all(folder);
    }
    return absl::OkStatus();
  });
}
