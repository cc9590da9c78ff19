#include "examples/support/digits_options.h"

#include "meshwork/base/flags.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// Larger than any useful value, small enough for any machine.
constexpr int64_t kMostExamples = 1'000'000;

}  // namespace

absl::StatusOr<DigitsOptions> ParseDigitsOptions(const DigitsModel& model, int argc,
                                                 const char* const* argv) {
  DigitsOptions o;
  o.optimizer = model.optimizer;
  o.learning_rate = model.learning_rate;
  FlagTable flags(std::string(model.program), std::string(model.about));
  AddRunFlags(flags, std::string(model.mesh_help), "of the initial weights and the order of the images",
              &o.run);
  flags.Int("train-examples", "the first so many training images", &o.train_examples, 1, kMostExamples);
  flags.Int("test-examples", "the first so many test images", &o.test_examples, 1, kMostExamples);
  flags.Int("epochs", "passes over the training images; 0: only test the weights", &o.epochs, 0);
  flags.Int("steps", "stop after so many steps in all and put each step's loss into the JSON; 0: no limit",
            &o.steps, 0);
  flags.Int("batch-size", "images per step; the last batch of an epoch may be shorter", &o.batch_size, 1,
            kMostExamples);
  flags.Choice("optimizer", "what updates the weights", &o.optimizer, OptimizerNames());
  flags.Real("lr", "its learning rate", &o.learning_rate, 0);
  flags.Choice("shuffle", "a new order of the images each epoch", &o.shuffle, {"on", "off"});
  flags.Choice("dtype", "of weights and images", &o.dtype, {"f32", "f64"});
  flags.Text("data-dir",
             "folder with the four IDX files, gzipped or not, or \"synthetic\" for drawn digits; without it\n"
             "                     $MNIST_DIR, else drawn digits",
             &o.data_dir);
  flags.Text("load", "starts with the weights that --save wrote, on this mesh or another", &o.load);
  flags.Text("save", "writes the weights as safetensors; the optimizer's state is not among them", &o.save);
  flags.Text("tensorboard",
             "logs loss, accuracy, speed, weights, images and the program into this folder, for TensorBoard",
             &o.tensorboard);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  MESHWORK_RETURN_IF_ERROR(CheckRunFlags(o.run));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  return o;
}

}  // namespace meshwork
