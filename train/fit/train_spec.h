// What is trained and evaluated, on which data, and how often it is saved: the arguments of TrainAndEvaluate
// (train/fit/train_and_evaluate.h). Plain values; the names are those of tf.estimator.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/session/session.h"
#include "meshwork/train/data/dataset.h"

namespace meshwork {

enum class Mode { kTrain, kEvaluate };

// Builds the program of a mode. Both have the scalar output "loss"; their other scalar outputs are metrics. The program
// of kTrain updates its variables, as Optimizer::Minimize makes it. That of kEvaluate has the same variables, by name,
// or some of them; it may leave out dropout, or take other batches. Mistakes are recorded in the graph.
//
//   Graph Model(Mode mode) {
//     Graph g(mesh);
//     Value loss = …;
//     if (mode == Mode::kTrain) Sgd({.learning_rate = 1e-4}).Minimize(loss);
//     g.Output("loss", loss);
//     return g;
//   }
using ModelFn = std::function<Graph(Mode mode)>;

// Examples, and how the feeds of a step are made of them.
struct InputSpec {
  Dataset dataset;
  // The size of a batch, the seed and the lanes. The other fields are set as the training goes on.
  BatchesOptions batches;
  // Gives the feeds for a batch. On a GPU a thread calls it, while the step before runs or earlier, maybe during an
  // evaluation: so it must not use the session, nor anything that changes meanwhile (train/fit/prefetch_to_device.h).
  // Rows that this process does not read may hold anything (BatchesOptions::rows).
  std::function<Feeds(const Batch& batch)> feeds;
};

struct TrainSpec {
  InputSpec input;        // repeated without end, each epoch in an order of its own if there is a seed
  int64_t max_steps = 0;  // >= 1; those before a restart count
};

struct EvalSpec {
  InputSpec input;
  int64_t steps = 0;  // so many batches; 0: all
  std::string name =
      {};  // of one evaluation among several: its results are in MODEL_DIR/eval_NAME; "": in MODEL_DIR/eval
  // A checkpoint is evaluated only if training, or the evaluator, has run for start_delay_secs, and the last evaluation
  // began throttle_secs ago or earlier. The last checkpoint is always evaluated.
  double start_delay_secs = 0;
  double throttle_secs = 0;
};

// The processes that evaluate.
enum class EvaluateIn {
  kAuto,      // the evaluator, if the cluster has one, else those that train
  kTraining,  // those that train, between two steps
  kEvaluator  // an evaluator that the cluster need not name
};

struct RunConfig {
  std::string model_dir;  // checkpoints and results; all processes see it
  double save_checkpoints_secs = 600;
  int64_t save_checkpoints_steps = 0;  // if positive: after so many steps, and not by time
  int64_t keep_checkpoint_max = 5;     // the newest so many stay
  int64_t log_step_count_steps = 100;
  EvaluateIn evaluate_in = EvaluateIn::kAuto;
  // An evaluator that sees no new checkpoint for so long ends with an error.
  double evaluator_patience_secs = 3600;
  // Whether this process is asked to stop (train/cluster/stop_signals.h): then all save a checkpoint and end. Null:
  // never.
  std::function<bool()> stop = {};
  SessionOptions session = {};
  // Takes what the chief, or the evaluator, has to say, line by line; null: prints it.
  std::function<void(std::string_view line)> log = {};
  std::function<double()> seconds = {};  // a clock; null: the steady clock
};

}  // namespace meshwork
