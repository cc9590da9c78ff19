#include "examples/mlp_mnist/options.h"

#include "base/flags.h"
#include "base/status.h"
#include "examples/support/mlp.h"

namespace meshwork {
namespace {

// Far beyond what is of use, and within what a machine can do.
constexpr int64_t kMostExamples = 1'000'000;
constexpr int64_t kMostWorkers = 1024;

}  // namespace

absl::StatusOr<MlpOptions> ParseMlpOptions(int argc, const char* const* argv) {
  MlpOptions o;
  FlagTable flags("mlp_mnist",
                  "Trains a 784-700-500-10 perceptron (ReLU) on MNIST, sharded over virtual CPU devices.");
  flags.Text("mesh",
             "named axes; \"batch\" shards the examples, \"model\" the first kernel by columns and the\n"
             "                     second by rows; others hold copies",
             &o.mesh);
  flags.Int("train-examples", "the first so many training images", &o.train_examples, 1, kMostExamples);
  flags.Int("test-examples", "the first so many test images", &o.test_examples, 1, kMostExamples);
  flags.Int("epochs", "passes over the training images; 0: only test the weights", &o.epochs, 0);
  flags.Int("steps", "stop after so many steps and put each step's loss into the JSON; 0: no limit", &o.steps,
            0);
  flags.Int("batch-size", "images per step; the last batch of an epoch may be shorter", &o.batch_size, 1,
            kMostExamples);
  flags.Choice("optimizer", "what updates the weights", &o.optimizer, OptimizerNames());
  flags.Real("lr", "its learning rate", &o.learning_rate, 0);
  flags.Int("seed", "of the initial weights and the order of the images", &o.seed, 0);
  flags.Choice("shuffle", "a new order of the images each epoch", &o.shuffle, {"on", "off"});
  flags.Choice("dtype", "of weights and images", &o.dtype, {"f32", "f64"});
  flags.Int("workers", "threads; 0: one per core", &o.workers, 0, kMostWorkers);
  flags.Text("data-dir",
             "folder with the four IDX files, gzipped or not, or \"synthetic\" for drawn digits; without it\n"
             "                     $MNIST_DIR, else drawn digits",
             &o.data_dir);
  flags.Text("load", "starts with the weights that --save wrote, on this mesh or another", &o.load);
  flags.Text("save", "writes the weights as safetensors; the optimizer's state is not among them", &o.save);
  flags.Text("json", "writes what was measured as one JSON object", &o.json);
  flags.Text("plot", "draws loss and accuracy over the steps into this SVG file", &o.plot);
  flags.Text("profile",
             "on: prints at the end where the time of the full steps went; a file name: prints it, and\n"
             "                     writes when what ran in the last steps, for ui.perfetto.dev",
             &o.profile);
  flags.Switch(
      "explain",
      "prints each collective with its cause, where layouts disagree, and the memory of a step, before\n"
      "                     training",
      &o.explain);
  flags.Switch(
      "shard-weight-update",
      "keeps the optimizer's state in blocks over \"batch\" (ZeRO stage 1); the weights are the same",
      &o.shard_weight_update);
  flags.Text("dump", "writes the program after every pass into this folder", &o.dump);
  RETURN_IF_ERROR(flags.Parse(argc, argv));
  if (o.profile.empty()) o.profile = "off";
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  return o;
}

}  // namespace meshwork
