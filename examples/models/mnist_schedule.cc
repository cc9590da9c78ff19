// A perceptron on handwritten digits whose learning rate warms up, and then falls along a cosine: optax's example
// "MNIST", with a schedule.
#include "examples/models/print_losses.h"

namespace mw = meshwork;
using mw::UNSHARDED;

constexpr int64_t kEpochs = 2, kBatch = 128, kTrain = 2560, kTest = 256;

int main(int argc, char** argv) {
  const mw::ModelFlags flags(argc, argv, "mnist_schedule",
                             "Trains a perceptron on digits for 2 epochs of so many steps.", 50);
  mw::Graph graph = flags.NewGraph({{"image", {"batch", UNSHARDED}},
                                    {"label", {"batch"}},
                                    {"hidden1/kernel", {UNSHARDED, "model"}},
                                    {"hidden1/bias", {"model"}},
                                    {"hidden2/kernel", {"model", UNSHARDED}}});
  const mw::Sequential model(mw::Dense(graph, "hidden1", 1000), mw::Relu, mw::Dense(graph, "hidden2", 1000),
                             mw::Relu, mw::Dense(graph, "logits", 10));
  const mw::Value logits = model(graph.Input("image", flags.dtype, {kBatch, 784}));
  const mw::Value labels = graph.Input("label", mw::I32, {kBatch});
  const mw::Value loss = mw::SparseSoftmaxCrossEntropy(logits, labels);
  const int64_t warmup = flags.steps / 5 + 1;
  const mw::RateSchedule rate =
      mw::Warmup(warmup, mw::CosineDecay({.initial = 2e-3, .steps = kEpochs * flags.steps - warmup}));
  const mw::Minimized step = mw::Adam({.learning_rate = rate}).Minimize(loss);
  graph.Output("loss", loss);
  graph.Output("rate", step.learning_rate());
  graph.Output("accuracy", mw::AccuracyMetric(graph, "accuracy").Update(logits, labels));

  mw::Session session = mw::Session::Create(graph).value();
  const mw::MnistData digits = mw::SyntheticDigits(kTrain, kTest, /*seed=*/1, flags.dtype).value();
  const mw::Pipeline train =
      mw::Pipeline::From(digits.train).Shuffle(kTrain, /*seed=*/1).Batch(kBatch).Prefetch(2);
  const mw::History history = mw::Fit(session, train,
                                      {.epochs = kEpochs,
                                       .steps_per_epoch = flags.steps,
                                       .validation_data = mw::Pipeline::From(digits.test).Batch(kBatch),
                                       .callbacks = {mw::PrintLosses(flags)}})
                                  .value();
  for (const double accuracy : history.Of("val_accuracy")) fmt::print("test accuracy {:.3f}\n", accuracy);
}
