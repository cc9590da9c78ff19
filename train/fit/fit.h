// Fit trains on a data set for some epochs; Evaluate and Predict go over one once.
//
//   const Pipeline data = BatchesOf({{"x", images}, {"y", labels}}, {.batch_size = 128, .shuffle_seed = 7}).value();
//   MESHWORK_ASSIGN_OR_RETURN(const History history,
//                             Fit(session, data, {.epochs = 5, .validation_data = test, .callbacks = {ProgressBar()}}));
//   history.Of("val_loss")
//   MESHWORK_ASSIGN_OR_RETURN(const Metrics result, Evaluate(session, test));       // {"accuracy": 0.97, "loss": 0.11}
//   MESHWORK_ASSIGN_OR_RETURN(const StepResult scores, Predict(session, test, {.outputs = {"logits"}}));
//
// A step takes one element of the data, a batch: its columns are the inputs of the program, by name, unless
// FitOptions::feeds says otherwise. The last batch may be short.
//
// Fit is for one program that is trained and evaluated in one place. TrainAndEvaluate (train/fit/train_and_evaluate.h)
// is for jobs of many processes that come and go, with another program for the evaluation, or another process. Both
// count, save and stop by the same parts: OutputMeans, CheckpointManager, Pulse.
//
// All domains of a session call these functions alike, with the same data (Session). The domains compare
// Pipeline::Fingerprint, the number of batches and the options when a call begins, and the places of their batches
// before each step. If they differ, for example because the data of one domain end first, the call fails in all domains
// with the same error, which names the difference, and the session is as it was before the step. If the data or a
// callback fail in one domain, the call fails in all, and the session is of no more use.
//
// Thread safety: the session's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/session/session.h"
#include "meshwork/train/cluster/stop_signals.h"
#include "meshwork/train/data/pipeline.h"
#include "meshwork/train/fit/callbacks.h"
#include "meshwork/train/fit/history.h"

namespace meshwork {

// Makes the feeds of a step from its batch.
using FeedFunction = std::function<absl::StatusOr<Feeds>(const Example& batch)>;

struct FitOptions {
  int64_t epochs = 1;  // epochs 0 to epochs - 1
  // 0: an epoch is one walk over the data. Otherwise an epoch has so many steps; when the data end, they begin again.
  // Either way walk w is shuffled as epoch w of Pipeline::Repeat.
  int64_t steps_per_epoch = 0;
  // Evaluated after every so many-th epoch, and after the last one. Its outputs are called "val_loss", ….
  std::optional<Pipeline> validation_data = {};
  int64_t validation_every = 1;
  int64_t validation_steps = 0;          // so many batches; 0: all
  std::string validation_averages = {};  // EvaluateOptions::averages, of the validation
  std::vector<CallbackPtr> callbacks = {};
  // The scalar outputs to report: their means over the examples; of metrics, their values at the end of the epoch
  // (train/fit/output_means.h). Empty: all scalar outputs.
  std::vector<std::string> outputs = {};
  int64_t initial_epoch = 0;  // earlier epochs count as done
  FeedFunction feeds = {};    // null: the columns of the batch
  Feeds fed = {};             // inputs that are the same in each step, such as a rate
  // Whether a thread makes the next batch, calls `feeds` for it, and copies it to the device, while a step runs
  // (train/fit/prefetch_to_device.h); nothing: if the session computes on a GPU. The numbers, and positions in
  // checkpoints, are the same. `feeds` and the data must then not use the session, nor anything that callbacks change,
  // and must give each batch tensors of its own; a validation may call `feeds` at the same time. `fed`, and the inputs
  // that callbacks feed, are read when the step begins. If something stops the training before its last step, one batch
  // is made that no step takes.
  std::optional<bool> prefetch_to_device = {};
  // Whether to stop after this step. After CatchStopSignals (train/cluster/stop_signals.h), Ctrl-C and SIGTERM ask for
  // it. Null: never.
  std::function<bool()> stop = IsStopAsked;
  std::function<void(std::string_view line)> log = {};  // null: a line to standard error
  std::function<double()> seconds = {};                 // a clock; null: the steady clock
};

// Trains, and returns the results of the epochs. At the start of an epoch the metrics of the program are reset
// (ResetMetrics), and a validation leaves them as they were. An epoch that was stopped before its end is not in the
// history. Errors: an option is wrong; the data are wrong, have no batch, or have no end and steps_per_epoch is 0;
// there is no such output, or it is no scalar; those of Session::Run and Session::Accumulate, with the epoch and the
// step; those of the data and of callbacks.
absl::StatusOr<History> Fit(Session& session, const Pipeline& data, const FitOptions& options = {});

struct EvaluateOptions {
  std::vector<std::string> outputs = {};  // scalars; none: all scalar outputs
  int64_t steps = 0;                      // so many batches; 0: all
  FeedFunction feeds = {};                // null: the columns of the batch
  Feeds fed = {};
  // AverageOptions::name, "ema": evaluates by these averages of the weights (train/optim/averages_as_weights.h);
  // afterwards the weights are as before, also after an error. Empty: by the weights.
  std::string averages = {};
};
// The mean of each scalar output over the examples, outside of training; outputs of metrics over all examples. The
// session's variables, metrics among them, stay as they are. Only what the outputs need is computed, and has to be fed.
// Errors: as Fit.
absl::StatusOr<Metrics> Evaluate(Session& session, const Pipeline& data, const EvaluateOptions& options = {});

struct PredictOptions {
  std::vector<std::string> outputs = {};  // none: all
  FeedFunction feeds = {};                // null: the columns of the batch
};
// The outputs of all examples, joined along dim 0 (Session::Predict). The data may have columns that the outputs do not
// need, such as labels. Errors: as Fit; an output does not have a row for each example; those of Session::Predict.
absl::StatusOr<StepResult> Predict(Session& session, const Pipeline& data,
                                   const PredictOptions& options = {});

struct BatchesOfOptions {
  int64_t batch_size = 32;
  std::optional<uint64_t> shuffle_seed = {};  // nothing: in order
  bool drop_remainder = false;                // leave out the last batch if it is short
};
// Whole tensors as data: row i of each is example i. Errors: those of Dataset::Create; batch_size < 1.
absl::StatusOr<Pipeline> BatchesOf(const Feeds& tensors, const BatchesOfOptions& options = {});

}  // namespace meshwork
