// The multi-worker example of tf.estimator's tutorial: trains a convolutional network on digits, saves checkpoints, and
// evaluates them. See --help, and docs/distributed.md.
#include "meshwork/train/fit/train_and_evaluate.h"

#include <string>

#include "examples/support/cnn.h"
#include "examples/support/digits_data.h"
#include "examples/support/training_run.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/status.h"
#include "meshwork/core.h"
#include "meshwork/train/cluster/stop_signals.h"

namespace meshwork {
namespace {

struct Options {
  RunOptions run{.mesh = ""};
  RunConfig config;
  DataOptions data{.train_examples = 60000, .test_examples = 10000};
  std::string evaluate_in = "auto";
  int64_t save_seconds = 600, patience_seconds = 3600;
  int64_t batch_size = 64;
  double learning_rate = 1e-4;
  int64_t max_steps = 1000, eval_steps = 0;
  std::string help;  // its text, if it was asked for
};

void AddTrainingFlags(FlagTable& flags, Options& o) {
  flags.Text("model-dir", "folder of the checkpoints and results; training goes on from the newest there",
             &o.config.model_dir);
  flags.Int("max-steps", "steps in all, those before a restart included", &o.max_steps, 1);
  flags.Int("batch-size", "images per process and step", &o.batch_size, 1, 1'000'000);
  flags.Real("lr", "learning rate of the gradient descent", &o.learning_rate, 0);
  flags.Int("save-checkpoints-secs", "a checkpoint after so many seconds", &o.save_seconds, 1);
  flags.Int("save-checkpoints-steps", "a checkpoint after so many steps, and not by time; 0: by time",
            &o.config.save_checkpoints_steps, 0);
  flags.Int("keep-checkpoint-max", "the newest so many checkpoints stay", &o.config.keep_checkpoint_max, 1);
  flags.Int("log-step-count-steps", "a line about the loss after so many steps",
            &o.config.log_step_count_steps, 1);
  flags.Choice("evaluate-in",
               "what evaluates the checkpoints: an evaluator if the cluster has one, else those that train;\n"
               "                     those that train; or an evaluator that the cluster need not name",
               &o.evaluate_in, {"auto", "training", "evaluator"});
  flags.Int("eval-steps", "batches of an evaluation; 0: all test images", &o.eval_steps, 0);
  flags.Int("evaluator-patience", "seconds that an evaluator waits for a new checkpoint", &o.patience_seconds,
            1);
}

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags(
      "train_and_evaluate",
      "Trains the convolutional network of tf.estimator's multi-worker tutorial on MNIST, on one process\n"
      "or several: 32 filters of 3x3, ReLU, max-pool, 64 units, ReLU, 10 units, by gradient descent.");
  AddTrainingFlags(flags, o);
  flags.Text(
      "mesh",
      "named axes; \"batch\" shards the images, \"height\" the rows of each image; empty: a device per\n"
      "                     process, along \"batch\"",
      &o.run.mesh);
  flags.Int("seed", "of the initial weights and the order of the images", &o.run.seed, 0);
  flags.Int("workers", "threads; 0: one per core", &o.run.workers, 0, 1024);
  flags.Int("train-examples", "the first so many training images", &o.data.train_examples, 1, 1'000'000);
  flags.Int("test-examples", "the first so many test images", &o.data.test_examples, 1, 1'000'000);
  flags.Text("data-dir",
             "folder with the four IDX files, gzipped or not, or \"synthetic\" for drawn digits; without it\n"
             "                     $MNIST_DIR, else drawn digits",
             &o.data.dir);
  AddJoinFlags(flags, &o.run.join);
  flags.Switch("deterministic", "the same bits on however many processes, for more bytes between them",
               &o.run.deterministic);
  flags.Text("log-dir", "workers write what they print into this folder", &o.run.log_dir);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  if (flags.help_asked()) {
    o.help = flags.Help();
    return o;
  }
  if (o.config.model_dir.empty())
    return InvalidArgument("--model-dir is missing; it names the folder of the checkpoints.");
  o.run.join.may_evaluate = true;
  o.config.save_checkpoints_secs = static_cast<double>(o.save_seconds);
  o.config.evaluator_patience_secs = static_cast<double>(o.patience_seconds);
  if (o.evaluate_in == "training") o.config.evaluate_in = EvaluateIn::kTraining;
  if (o.evaluate_in == "evaluator") o.config.evaluate_in = EvaluateIn::kEvaluator;
  return o;
}

absl::Status Main(Options o) {
  const Processes& processes = *o.run.processes;
  const int64_t num_processes = processes.cluster().num_processes();
  if (o.run.mesh.empty()) o.run.mesh = fmt::format("batch={}", num_processes);
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, MeshOf(o.run));
  o.data.seed = o.run.seed;
  o.data.is_chief = processes.is_chief();
  if (processes.is_evaluator()) o.data.train_examples = 1;  // they are not read
  MESHWORK_ASSIGN_OR_RETURN(const Data data, LoadData(o.data, F32));

  const int64_t batch_size = o.batch_size * num_processes;
  const ModelFn model = [&](Mode mode) {
    Graph graph(mesh);
    if (mode == Mode::kTrain) BuildCnn(graph, batch_size, {}, Sgd({.learning_rate = o.learning_rate}));
    else BuildCnn(graph, batch_size, {});
    return graph;
  };
  const auto feeds = [](const Batch& batch) -> Feeds {
    return {{"images", batch["image"].Reshaped({batch.rows(), 28, 28, 1})}, {"labels", batch["label"]}};
  };
  const TrainSpec train{
      .input = {data.digits.train,
                {.batch_size = batch_size, .shuffle_seed = static_cast<uint64_t>(o.run.seed)},
                feeds},
      .max_steps = o.max_steps};
  const EvalSpec eval{.input = {data.digits.test, {.batch_size = batch_size}, feeds}, .steps = o.eval_steps};
  o.config.stop = IsStopAsked;
  o.config.session.seed = o.run.seed;
  o.config.session.workers = static_cast<int>(o.run.workers);
  o.config.session.compile.deterministic = o.run.deterministic;
  MESHWORK_ASSIGN_OR_RETURN(const Evaluation last, TrainAndEvaluate(model, train, eval, o.config, processes));
  fmt::print("{}\n", last.ToString());
  return absl::OkStatus();
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  using namespace meshwork;
  return RunMain("train_and_evaluate", [&]() -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(Options options, ParseOptions(argc, argv));
    if (!options.help.empty()) {
      fmt::print("{}", options.help);
      return absl::OkStatus();
    }
    CatchStopSignals();
    return RunWithOthers(options.run, [&] { return Main(options); });
  });
}
