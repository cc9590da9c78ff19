// TensorFlow's guide "Training and evaluation with the built-in methods", part by part, on drawn digits: losses and
// metrics of one's own, validation, weights of classes and samples, several inputs and outputs, callbacks, checkpoints,
// schedules.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "examples/models/print_losses.h"

namespace mw = meshwork;
using mw::UNSHARDED;

constexpr int64_t kBatch = 64, kTrain = 1024, kHeldOut = 256;

// The perceptron of all parts but one. Loss and optimizer are each part's own.
struct Model {
  mw::Graph graph;
  mw::Value labels, hidden, logits;

  explicit Model(const mw::ModelFlags& flags)
      : graph(flags.NewGraph({{"image", {"batch", UNSHARDED}},
                              {"label", {"batch"}},
                              {"dense_1/kernel", {UNSHARDED, "model"}},
                              {"dense_1/bias", {"model"}},
                              {"dense_2/kernel", {"model", UNSHARDED}}})) {
    const mw::Value images = graph.Input("image", flags.dtype, {kBatch, 784});
    labels = graph.Input("label", mw::I32, {kBatch});
    hidden = mw::Relu(mw::Dense(graph, "dense_1", 784, 64)(images));
    logits = mw::Dense(graph, "predictions", 64, 10)(mw::Relu(mw::Dense(graph, "dense_2", 64, 64)(hidden)));
  }

  mw::Value CrossEntropy(const mw::Value& weights = {}) const {
    return mw::SparseSoftmaxCrossEntropy(logits, labels, {.weights = weights});
  }

  mw::Session Compile(const mw::Value& loss, const mw::Optimizer& optimizer = mw::RmsProp({})) {
    optimizer.Minimize(loss);
    graph.Output("loss", loss);
    graph.Output("accuracy", mw::AccuracyMetric(graph, "accuracy").Update(logits, labels));
    graph.Output("probabilities", mw::Softmax(logits));
    return mw::Session::Create(graph).value();
  }
};

// A loss of probabilities and labels, with a penalty for probabilities far from 1/2.
mw::Value CustomMse(const Model& model, double regularization) {
  const mw::Value p = mw::Softmax(model.logits);
  return mw::MeanSquaredError(p, mw::OneHot(model.labels, 10, p.dtype())) +
         regularization * mw::ReduceMean(mw::Square(0.5 - p));
}

// A metric: the number of labels that were found.
class TruePositives : public mw::Metric {
 public:
  explicit TruePositives(mw::Graph& graph)
      : Metric(graph, "true_positives", {"count"}, {}, mw::CallSite::Current()) {}
  mw::Value Update(const mw::Value& logits, const mw::Value& labels) {
    const mw::Value found = mw::ReduceSum(mw::Cast(mw::Equal(mw::Argmax(logits, -1), labels), mw::F64));
    return SetResult(Add({&found, 1}, mw::CallSite::Current())[0]);
  }
};

// The loss of each step.
class LossHistory : public mw::Callback {
 public:
  absl::Status OnStepEnd(mw::FitState& state) override {
    losses.push_back(state.last().at("loss"));
    return absl::OkStatus();
  }
  std::vector<double> losses;
};

struct Guide {
  mw::ModelFlags flags;
  mw::Pipeline train, validation, test;
  std::string folder;

  mw::History Fit(mw::Session& session, const mw::Pipeline& data, mw::FitOptions options = {}) const {
    options.steps_per_epoch = flags.steps;
    options.callbacks.push_back(mw::PrintLosses(flags));
    options.log = [](std::string_view line) { fmt::print("{}\n", line); };
    return mw::Fit(session, data, options).value();
  }

  void FirstExample() const {
    Model model(flags);
    mw::Session session = model.Compile(model.CrossEntropy());
    fmt::print("{}", Fit(session, train, {.epochs = 2, .validation_data = validation}).ToCsv());
    const mw::Metrics result = mw::Evaluate(session, test).value();
    fmt::print("test loss {:.4f}, accuracy {:.4f}\n", result.at("loss"), result.at("accuracy"));
    const mw::StepResult scores = mw::Predict(session, test.Take(1), {.outputs = {"probabilities"}}).value();
    fmt::print("predictions: {}\n", scores.Get("probabilities")->type().ToString());
  }

  void CustomLosses() const {
    for (const double regularization : {0.0, 0.1}) {
      Model model(flags);
      mw::Session session = model.Compile(CustomMse(model, regularization), mw::Adam({}));
      Fit(session, train);
    }
  }

  void CustomMetric() const {
    Model model(flags);
    model.graph.Output("found", TruePositives(model.graph).Update(model.logits, model.labels));
    mw::Session session = model.Compile(model.CrossEntropy());
    for (const double found : Fit(session, train, {.epochs = 3}).Of("found")) fmt::print("{} found\n", found);
  }

  void ActivityRegularization() const {
    Model model(flags);
    const mw::Value deviation = mw::StandardDeviation(model.hidden);
    model.graph.Output("std", mw::MeanMetric(model.graph, "std").Update(deviation));
    mw::Session session = model.Compile(model.CrossEntropy() + 0.1 * mw::ReduceSum(model.hidden));
    Fit(session, train);
  }

  void ClassWeights() const {
    Model model(flags);
    mw::Session session = model.Compile(model.CrossEntropy(mw::ClassWeights(model.labels, {{5, 2.0}})));
    Fit(session, train);
  }

  void SampleWeights() const {
    Model model(flags);
    mw::Session session =
        model.Compile(model.CrossEntropy(model.graph.Input("weight", flags.dtype, {kBatch}, {"batch"})));
    const mw::Pipeline weighted = train.Map([&](mw::Example batch) {
      std::vector<double> weights;
      for (const int32_t label : batch["label"].values<int32_t>()) weights.push_back(label == 5 ? 2 : 1);
      batch.Set("weight", mw::Tensor::From<double>({std::ssize(weights)}, weights).Cast(flags.dtype));
      return batch;
    });
    Fit(session, weighted);
  }

  void SeveralInputsAndOutputs() const {
    mw::Graph graph = flags.NewGraph({{"image", {"batch", UNSHARDED, UNSHARDED, UNSHARDED}},
                                      {"series", {"batch", UNSHARDED, UNSHARDED}},
                                      {"*_target", {"batch", UNSHARDED}}});
    const mw::Value image = graph.Input("image", flags.dtype, {32, 32, 32, 3});
    const mw::Value series = graph.Input("series", flags.dtype, {32, 20, 10});
    const mw::Value score_target = graph.Input("score_target", flags.dtype, {32, 1});
    const mw::Value class_target = graph.Input("class_target", flags.dtype, {32, 5});
    const mw::Value x1 = mw::GlobalMaxPool(mw::Conv2D(graph, "conv2d", 3, 3, {3, 3})(image));
    const mw::Value x2 = mw::GlobalMaxPool(mw::Conv1D(graph, "conv1d", 10, 3, {3})(series));
    const mw::Value x = mw::Concat({x1, x2}, -1);
    const mw::Value score = mw::Dense(graph, "score", 6, 1)(x), logits = mw::Dense(graph, "class", 6, 5)(x);
    const mw::Value loss =
        2.0 * mw::MeanSquaredError(score, score_target) + mw::SoftmaxCrossEntropy(logits, class_target);
    mw::RmsProp({.learning_rate = 1e-3}).Minimize(loss);
    graph.Output("loss", loss);
    graph.Output("score_mae", mw::MeanAbsoluteErrorMetric(graph, "score_mae").Update(score, score_target));
    graph.Output("class_accuracy",
                 mw::AccuracyMetric(graph, "class_accuracy").Update(logits, mw::Argmax(class_target, -1)));
    mw::Session session = mw::Session::Create(graph).value();
    std::mt19937_64 random(1);
    const auto drawn = [&](const mw::Shape& shape) {
      std::vector<double> numbers(mw::NumElements(shape));
      for (double& number : numbers) number = static_cast<double>(random() % 1000) / 1000;
      return mw::Tensor::From<double>(shape, numbers).Cast(flags.dtype);
    };
    const mw::Feeds data = {{"image", drawn({100, 32, 32, 3})},
                            {"series", drawn({100, 20, 10})},
                            {"score_target", drawn({100, 1})},
                            {"class_target", drawn({100, 5})}};
    Fit(session, mw::BatchesOf(data, {.batch_size = 32}).value());
  }

  void Callbacks() const {
    Model model(flags);
    mw::Session session = model.Compile(model.CrossEntropy());
    const auto history = std::make_shared<LossHistory>();
    Fit(session, train,
        {.epochs = 3,
         .validation_data = validation,
         .callbacks = {mw::EarlyStopping({.patience = 2, .min_delta = 1e-2}), history,
                       mw::BestCheckpoint({.dir = folder + "/best"}), mw::TensorBoardLog(folder + "/logs")}});
    fmt::print("{} losses, the last {:.4f}\n", history->losses.size(), history->losses.back());
  }

  // The second training continues where the first one ended.
  void Checkpoints() const {
    for (const int64_t epochs : {1, 2}) {
      Model model(flags);
      mw::Session session = model.Compile(model.CrossEntropy());
      Fit(session, train,
          {.epochs = epochs, .callbacks = {mw::BackupAndResume({.dir = folder + "/backup", .steps = 100})}});
    }
  }

  void Schedules() const {
    Model model(flags);
    const auto schedule =
        mw::ExponentialDecay({.initial = 0.01, .factor = 0.96, .steps = 100'000, .staircase = true});
    mw::Session session = model.Compile(model.CrossEntropy(), mw::RmsProp({.learning_rate = schedule}));
    Fit(session, train);
  }
};

int main(int argc, char** argv) {
  const mw::ModelFlags flags(argc, argv, "built_in_methods",
                             "Goes through a guide to training and evaluation, part by part.",
                             kTrain / kBatch);
  const mw::MnistData digits = mw::SyntheticDigits(kTrain + kHeldOut, kHeldOut, 1, flags.dtype).value();
  const mw::Pipeline all = mw::Pipeline::From(digits.train);
  const Guide guide{.flags = flags,
                    .train = all.Take(kTrain).Shuffle(kTrain, /*seed=*/1).Batch(kBatch),
                    .validation = all.Skip(kTrain).Batch(kBatch),
                    .test = mw::Pipeline::From(digits.test).Batch(kBatch),
                    .folder = fmt::format("{}/built_in_methods_{}",
                                          std::filesystem::temp_directory_path().string(), getpid())};
  const std::vector<std::pair<const char*, void (Guide::*)() const>> parts = {
      {"a first example", &Guide::FirstExample},
      {"losses of one's own", &Guide::CustomLosses},
      {"a metric of one's own", &Guide::CustomMetric},
      {"a loss of activations", &Guide::ActivityRegularization},
      {"weights of classes", &Guide::ClassWeights},
      {"weights of samples", &Guide::SampleWeights},
      {"several inputs and outputs", &Guide::SeveralInputsAndOutputs},
      {"callbacks", &Guide::Callbacks},
      {"checkpoints", &Guide::Checkpoints},
      {"a schedule", &Guide::Schedules}};
  for (const auto& [name, part] : parts) {
    fmt::print("{}:\n", name);
    (guide.*part)();
  }
  std::filesystem::remove_all(guide.folder);
}
