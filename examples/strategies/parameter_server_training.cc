// TensorFlow's tutorial "Parameter server training with ParameterServerStrategy": workers train at their own pace,
// servers keep the variables in pieces, a chief schedules the steps and evaluates. The same program in every process:
//
//   examples/multi_worker/launch --chief --servers 2 4 build/release/examples/strategies/parameter_server_training
//
// starts a chief, three workers and two servers. With --model-dir the chief saves the model after each epoch, and a
// process of role "evaluator" (--evaluator of the launcher) evaluates what comes there. See --help.
#include <cstdlib>
#include <string>

#include "fmt/ranges.h"
#include "meshwork.h"
#include "meshwork/base/flags.h"
#include "meshwork/train/fit/evaluator.h"

namespace mw = meshwork;

struct Flags {
  std::string cluster = "auto", data_dir = "synthetic", folder, model_dir;
  int64_t train = 6000, test = 1000, epochs = 3, steps_per_epoch = 200, batch = 64, save_every = 100;
  int64_t staleness = -1, gather = 0, shards = 2, deadline = 60;
  bool insecure = false;

  // Ends the program on --help and on mistakes.
  Flags(int argc, char** argv) {
    mw::FlagTable flags("parameter_server_training", "Trains a classifier of digits with parameter servers.");
    flags.Text("cluster", "the processes: auto or tf_config, as TF_CONFIG says, or a JSON file", &cluster);
    flags.Switch("insecure",
                 "processes on several hosts need no MESHWORK_TOKEN, and obey whoever reaches them",
                 &insecure);
    flags.Text("data-dir", "folder with the four IDX files of MNIST, or \"synthetic\" for drawn digits",
               &data_dir);
    flags.Int("train-examples", "the first so many", &train, /*at_least=*/1);
    flags.Int("test-examples", "the first so many", &test, /*at_least=*/1);
    flags.Int("epochs", "each with an evaluation at its end", &epochs, /*at_least=*/1);
    flags.Int("steps-per-epoch", "of all workers together", &steps_per_epoch, /*at_least=*/1);
    flags.Int("batch-size", "of a worker's step", &batch, /*at_least=*/1);
    flags.Int("staleness", "updates that a gradient may be old; -1: any number", &staleness, /*at_least=*/-1);
    flags.Int("gather", "gradients that make an update, for which servers wait; 0: each is one", &gather,
              /*at_least=*/0);
    flags.Int("shards", "pieces of a large variable, at most", &shards, /*at_least=*/1);
    flags.Text("folder", "of the servers' checkpoints; none without", &folder);
    flags.Int("save-every", "steps", &save_every, /*at_least=*/1);
    flags.Text("model-dir", "of the model after each epoch, which an evaluator needs; none without",
               &model_dir);
    flags.Int("deadline", "seconds that a process waits for one that is away", &deadline, /*at_least=*/1);
    const absl::Status status = flags.Parse(argc, argv);
    if (flags.help_asked()) fmt::print("{}", flags.Help());
    if (!status.ok()) fmt::print(stderr, "{}\n", std::string(status.message()));
    if (flags.help_asked() || !status.ok()) std::exit(status.ok() ? 0 : 2);
  }

  mw::ParameterServerOptions Options() const {
    mw::ParameterServerOptions options;
    options.cluster = cluster;
    options.partitioner = mw::MinSizePartitioner({.min_shard_bytes = 16 << 10, .max_shards = shards});
    if (staleness >= 0) options.max_staleness = staleness;
    options.gather = gather;
    options.folder = folder;
    options.save_every = save_every;
    options.rpc.insecure = insecure;
    options.rpc.deadline = options.worker_deadline = std::chrono::seconds(deadline);
    options.session.workers = 1;  // of each of the processes that share the cores
    return options;
  }
};

mw::Graph Model(const Flags& flags, mw::Mode mode) {
  mw::Graph graph(mw::Mesh::VirtualCpus("device=1").value());
  const mw::Value images = graph.Input("image", mw::F32, {flags.batch, 784}),
                  labels = graph.Input("label", mw::I32, {flags.batch});
  const mw::Dense hidden(graph, "hidden", 784, 128), scores(graph, "scores", 128, 10);
  const mw::Value logits = scores(mw::Relu(hidden(images)));
  const mw::Value loss = mw::SparseSoftmaxCrossEntropy(logits, labels);
  if (mode == mw::Mode::kTrain) mw::Adam({.learning_rate = 1e-3}).Minimize(loss);
  graph.Output("loss", loss);
  graph.Output("accuracy", mw::ReduceMean(mw::Cast(mw::Equal(mw::Argmax(logits, -1), labels), mw::F32)));
  return graph;
}

// The evaluator: evaluates each saved model, until that of the last step.
absl::Status Follow(const Flags& flags, const mw::MnistData& digits) {
  if (flags.model_dir.empty())
    return mw::InvalidArgument("--model-dir is missing; the chief saves there what an evaluator evaluates.");
  const auto feeds = [](const mw::Batch& batch) -> mw::Feeds {
    return {{"image", batch["image"]}, {"label", batch["label"]}};
  };
  mw::RunConfig config;
  config.model_dir = flags.model_dir;
  config.evaluator_patience_secs = static_cast<double>(flags.deadline);
  return mw::EvaluateCheckpoints([&](mw::Mode mode) { return Model(flags, mode); },
                                 flags.epochs * flags.steps_per_epoch,
                                 {.input = {digits.test, {.batch_size = flags.batch}, feeds}}, config)
      .status();
}

absl::Status Main(const Flags& flags) {
  MESHWORK_ASSIGN_OR_RETURN(const auto strategy, mw::ParameterServerStrategy::Create(flags.Options()));
  const absl::StatusOr<mw::MnistData> digits =
      flags.data_dir == "synthetic"
          ? mw::SyntheticDigits(flags.train, flags.test, /*seed=*/1, mw::F32)
          : mw::LoadMnist(flags.data_dir, mw::F32, {.train = flags.train, .test = flags.test});
  if (!digits.ok()) return digits.status();
  if (strategy.is_evaluator()) return Follow(flags, *digits);

  const mw::Graph graph = Model(flags, mw::Mode::kTrain);
  const auto batches_of = [&](const mw::InputContext& worker) -> absl::StatusOr<mw::Pipeline> {
    return mw::Pipeline::From(digits->train)
        .Shard(worker.input_pipeline_id, worker.num_input_pipelines)
        .Shuffle(10000, /*seed=*/1)
        .Batch(flags.batch);
  };
  return strategy.Run(graph, batches_of, [&](mw::ParameterServerTraining& training) -> absl::Status {
    mw::CatchStopSignals();  // Fit then ends with a checkpoint
    MESHWORK_ASSIGN_OR_RETURN(const int64_t before, training.StepsDone());
    fmt::print("{} after step {}\n", before == 0 ? "training begins" : "training goes on", before);
    std::fflush(stdout);
    const mw::Pipeline test = mw::Pipeline::From(digits->test).Batch(flags.batch);
    const auto save = [&]() -> absl::Status {
      if (flags.model_dir.empty()) return absl::OkStatus();
      MESHWORK_ASSIGN_OR_RETURN(const mw::Session* const snapshot, training.Snapshot());
      return snapshot->Save(flags.model_dir, {.step = snapshot->steps_done()});
    };
    MESHWORK_ASSIGN_OR_RETURN(const mw::History history,
                              training.Fit({.epochs = flags.epochs,
                                            .steps_per_epoch = flags.steps_per_epoch,
                                            .validation_data = test,
                                            .after_epoch = [&](const mw::EpochLog&) { return save(); }}));
    if (!history.stopped.empty()) return absl::OkStatus();
    // All steps were made before the chief was started again.
    if (history.epochs.empty()) MESHWORK_RETURN_IF_ERROR(save());
    MESHWORK_ASSIGN_OR_RETURN(mw::Session* const trained, training.Snapshot());
    MESHWORK_ASSIGN_OR_RETURN(const mw::Metrics result, mw::Evaluate(*trained, test));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> updates, training.Updates());
    fmt::print("{} steps, updates {}, test loss {:.6g}, accuracy {:.4f}\n", training.StepsDone().value(),
               fmt::join(updates, " "), result.at("loss"), result.at("accuracy"));
    return absl::OkStatus();
  });
}

int main(int argc, char** argv) {
  const Flags flags(argc, argv);
  const absl::Status status = Main(flags);
  if (!status.ok()) fmt::print(stderr, "{}\n", std::string(status.message()));
  return status.ok() ? 0 : 1;
}
