// Transfer learning: a network learns digits; its layers then serve another task, which has few examples: which digits
// are odd. First only a new head is trained on them, then all weights. See --help.
#include <unistd.h>

#include <filesystem>

#include "examples/models/flags.h"

namespace mw = meshwork;
using mw::UNSHARDED, mw::Value;

constexpr int64_t kBatch = 16, kEpoch = 4;  // an epoch has 4 batches

// images: [b,784] -> features: [b,32]. The variables are called "backbone/…".
Value Backbone(mw::Graph& graph, const Value& images) {
  const mw::NameScope scope(graph, "backbone");
  const mw::Conv2DOptions same{.window = {.padding = mw::WindowPadding::Same()}, .bias = false};
  const mw::Conv2D conv1(graph, "conv1", 16, {3, 3}, same), conv2(graph, "conv2", 32, {3, 3}, same);
  const auto norm = [&](const char* name) { return mw::BatchNormalization(graph, name, {.momentum = 0.9}); };
  const Value y = norm("norm1")(conv1(mw::Reshape(images, {kBatch, 28, 28, 1})));
  return mw::GlobalMaxPool(mw::Relu(norm("norm2")(conv2(mw::MaxPool(mw::Relu(y), {4, 4})))));
}

// A session of the backbone with a head: ten classes for digits, or two classes, odd or not.
mw::Session Classifier(const mw::ModelFlags& flags, const std::string& head, int64_t classes,
                       const mw::Optimizer& optimizer) {
  mw::Graph graph = flags.NewGraph({{"images", {"batch", UNSHARDED}},
                                    {"labels", {"batch"}},
                                    {"*/conv?/kernel", {UNSHARDED, UNSHARDED, UNSHARDED, "model"}},
                                    {"*/norm?/*", {"model"}}});
  const Value features = Backbone(graph, graph.Input("images", flags.dtype, {kBatch, 784}));
  const Value labels = graph.Input("labels", mw::I32, {kBatch}) % static_cast<double>(classes);
  const Value logits = mw::Dense(graph, head, classes)(features);
  const Value loss = mw::SparseSoftmaxCrossEntropy(logits, labels);
  optimizer.Minimize(loss);
  graph.Output("loss", loss);
  graph.Output("accuracy", mw::Accuracy(logits, labels));
  return mw::Session::Create(graph).value();
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}\n", std::string(status.message()));
  std::exit(1);
}

// Trains, and then restores the weights of the epoch that was best on the test data; folder `best` also has them.
void Train(mw::Session& session, const char* what, const mw::MnistData& digits, const mw::ModelFlags& flags,
           const std::string& best) {
  double best_accuracy = -1;
  int64_t step = 0;
  for (const mw::Example& b :
       mw::Pipeline::From(digits.train).Shuffle(64, 1).Repeat().Batch(kBatch).Take(flags.steps)) {
    const mw::StepResult result = session.Run({{"images", b["image"]}, {"labels", b["label"]}}).value();
    fmt::print("{} step {}: loss {:.{}g}\n", what, ++step, result.scalar("loss").value(), flags.digits);
    if (step % kEpoch != 0 && step != flags.steps) continue;
    double accuracy = 0;
    for (const mw::Batch& t : digits.test.Batches({.batch_size = kBatch}))
      accuracy +=
          session.Evaluate({{"images", t["image"]}, {"labels", t["label"]}})->scalar("accuracy").value();
    accuracy *= static_cast<double>(kBatch) / static_cast<double>(digits.test.size());
    fmt::print("{} epoch {}: test accuracy {:.3f}\n", what, (step + kEpoch - 1) / kEpoch, accuracy);
    if (accuracy <= best_accuracy) continue;
    best_accuracy = accuracy;
    Check(session.Save(best, {.step = step}));
  }
  Check(session.Restore(best).status());
  fmt::print("{}: best test accuracy {:.3f}\n\n", what, best_accuracy);
}

int main(int argc, char** argv) {
  const mw::ModelFlags flags(argc, argv, "transfer_learning",
                             "Trains a network, and uses it for another task.", /*steps=*/40);
  const std::string folder =
      std::filesystem::temp_directory_path() / fmt::format("transfer_learning.{}", getpid());

  mw::Session pretrained = Classifier(flags, "digits", 10, mw::Adam({.learning_rate = 0.01}));
  Train(pretrained, "pretraining", mw::SyntheticDigits(kEpoch * kBatch, 64, 1, flags.dtype).value(), flags,
        folder + "/digits");

  const mw::MnistData few = mw::SyntheticDigits(kEpoch * kBatch, 64, 2, flags.dtype).value();
  const mw::RateSchedule rate =
      mw::ExponentialDecay({.initial = 0.005, .factor = 0.1, .steps = 7 * kEpoch, .staircase = true});
  mw::Session fixed = Classifier(
      flags, "odd", 2,
      mw::Momentum({.learning_rate = rate, .groups = {{.pattern = "backbone/*", .frozen = true}}}));
  Check(fixed.Restore(folder + "/digits", {.partial = true}).status());  // the backbone
  Train(fixed, "head", few, flags, folder + "/fixed");

  mw::Session tuned = Classifier(flags, "odd", 2, mw::Momentum({.learning_rate = rate}));
  Check(tuned.Restore(folder + "/digits", {.partial = true}).status());
  Train(tuned, "all", few, flags, folder + "/tuned");
  std::filesystem::remove_all(folder);
}
