// Callbacks: what else happens while Fit (train/fit/fit.h) trains.
//
//   Fit(session, data, {.epochs = 20,
//                       .validation_data = test,
//                       .callbacks = {ProgressBar(), CsvLog("run/log.csv"), TensorBoardLog("run"), StopOnNan(),
//                                     EarlyStopping({.monitor = "val_loss", .patience = 3, .restore_best = true}),
//                                     BackupAndResume({.dir = "run/backup"})}});
//
// A callback of one's own is a class, or a few functions:
//
//   Lambdas({.on_epoch_end = [](FitState& state) {
//     fmt::print("{}\n", state.logs().at("loss"));
//     return absl::OkStatus();
//   }})
//
// An error of a callback ends Fit, which returns it. Where a session has several domains, all of them run the same
// callbacks, as all call Fit; those here write files and terminals in domain 0 only. Callbacks are called in the order
// in which they are given, those that save a training (Callback::is_last) last.
//
// Thread safety: Fit's thread calls them. A callback serves one Fit at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/session/session.h"
#include "meshwork/storage/checkpoint_index.h"
#include "meshwork/train/cluster/pulse.h"
#include "meshwork/train/fit/history.h"

namespace meshwork {

class EpochCallbacks;
class FitLoop;

// The state of a training, and what a callback may do to it.
class FitState {
 public:
  // With parameter servers, a copy of the training's variables at the end of the last epoch, which is of no use to the
  // training.
  Session& session() const { return *session_; }
  int64_t epochs() const { return epochs_; }
  int64_t epoch() const { return epoch_; }           // from 0
  int64_t epoch_steps() const { return in_epoch_; }  // steps of this epoch that are done
  int64_t steps() const { return history_.steps; }   // of all epochs
  // How many steps the epoch will have; 0: not known.
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  // The results of the epoch so far: means over its examples, and metrics (train/fit/output_means.h). At the end of an
  // epoch they include the results of the validation, "val_loss". Valid until the next step.
  const Metrics& logs() const { return logs_; }
  // The scalar outputs of the last step, on its batch alone.
  const Metrics& last() const { return last_; }
  // The feeds of the last step.
  const Feeds& feeds() const { return feeds_; }
  // The epochs that have ended. OnEpochEnd finds its own epoch among them.
  const History& history() const { return history_; }
  // Whether there are validation data.
  bool has_validation() const { return has_validation_; }
  // Whether this process writes files and terminals: domain 0 does.
  bool is_chief() const { return is_chief_; }
  Pulse& pulse() const { return pulse_; }
  // Writes a line where FitOptions::log says, in domain 0.
  void Log(std::string_view line) const { log_(line); }

  // Ends the training after this step, or this epoch; `why` becomes History::stopped. If one domain of several calls
  // it, the training ends in all of them after the same step, and stops() is true in all from then on.
  void Stop(std::string why);
  bool stops() const { return !history_.stopped.empty(); }
  // Whether a signal or FitOptions::stop ended the training, so that it may be continued.
  bool is_interrupted() const { return is_interrupted_; }

  // An input that is the same in all steps (FitOptions::fed), from the next step on. Null: there is no such input.
  const Tensor* fed(std::string_view input) const;
  void Feed(std::string_view input, Tensor value) { fed_[std::string(input)] = std::move(value); }

  // The contents of a checkpoint from which this training can continue: the step, the place in the data, the means of
  // the epoch so far, the history, and what the callbacks save. Error: that of PipelineIterator::Save. REQUIRES, also
  // for GoOnFrom: the training is a Fit of a session.
  absl::StatusOr<CheckpointNote> Note() const;
  // Called within OnTrainBegin: the training continues from the note, instead of starting. The caller restores the
  // session's variables. Errors: the note is not from Note; the steps per epoch, or the data, are others.
  absl::Status GoOnFrom(const CheckpointNote& note);

 private:
  friend class EpochCallbacks;
  friend class FitLoop;
  FitState(Session* session, Pulse& pulse, std::function<void(std::string_view line)> log)
      : session_(session), log_(std::move(log)), pulse_(pulse) {}

  Session* const session_;  // null only if there are no callbacks
  const std::function<void(std::string_view line)> log_;
  Pulse& pulse_;
  bool is_chief_ = true, is_interrupted_ = false, has_validation_ = false;
  int64_t epochs_ = 0, epoch_ = 0, in_epoch_ = 0, steps_per_epoch_ = 0;
  Metrics logs_, last_;
  Feeds feeds_, fed_;
  History history_;
  std::string why_stop_;     // of several domains: what Stop has said, until all have agreed
  FitLoop* loop_ = nullptr;  // null: of parameter servers
};

// A folder of checkpoints of a training.
struct SavedTraining {
  std::string dir;
  int64_t step = -1;     // of the newest one that can be used; -1: there is none
  bool resumes = false;  // whether the same Fit goes on from there; else it has the variables alone
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual absl::Status OnTrainBegin(FitState& /*state*/) { return absl::OkStatus(); }
  virtual absl::Status OnEpochBegin(FitState& /*state*/) { return absl::OkStatus(); }
  virtual absl::Status OnStepEnd(FitState& /*state*/) { return absl::OkStatus(); }
  // Called after the validation, if there is one. Not called for an epoch that Stop ended before its last step.
  virtual absl::Status OnEpochEnd(FitState& /*state*/) { return absl::OkStatus(); }
  // Also after Stop; not after an error.
  virtual absl::Status OnTrainEnd(FitState& /*state*/) { return absl::OkStatus(); }

  // The state that the callback needs to continue, as a line of UTF-8; "" if it keeps none from step to step.
  virtual std::string Save() const { return ""; }
  // Goes on from what Save gave; after OnTrainBegin of all callbacks. Error: the text is not from Save.
  virtual absl::Status Restore(FitState& /*state*/, std::string_view /*saved*/) { return absl::OkStatus(); }
  // The training is over, also after an error: nothing that belongs to it may be kept.
  virtual void Release() {}
  // Where the callback saves the training; nothing: it saves none.
  virtual std::optional<SavedTraining> Saved() const { return std::nullopt; }
  // OK if the Fit of parameter servers (train/parameter_server/rpc/parameter_server_strategy.h) may call it. That Fit
  // has no OnStepEnd, and it ignores what a callback changes in the session or feeds.
  virtual absl::Status CheckServed() const { return absl::OkStatus(); }
  // Whether it is called after all other callbacks, because it saves what their Save returns.
  virtual bool is_last() const { return false; }
};
using CallbackPtr = std::shared_ptr<Callback>;

// ---- What is shown and logged.

struct ProgressBarOptions {
  FILE* out = stderr;  // must outlive the training
};
// On a terminal a bar with the steps, the time of a step, the outputs and the time that is left, drawn over in place;
// then a line for each epoch. In a file or a pipe the lines alone (train/log/progress.h).
CallbackPtr ProgressBar(const ProgressBarOptions& options = {});

// Writes History::ToCsv to the file after each epoch; a reader sees the old file or the new one. Its folder is made
// where it is missing. Errors: those of WriteFileAtomically.
CallbackPtr CsvLog(std::string path);

struct TensorBoardLogOptions {
  int64_t every_steps = 0;       // the outputs of every so many-th step, as "step/loss"; 0: of none
  int64_t histograms_every = 0;  // every so many-th epoch; 0: none
  std::vector<std::string> variables = {};  // that get histograms; empty: all trained variables
};
// The outputs of each epoch, as "epoch/loss", by the number of steps (train/log/summary_writer.h): those of the
// training as the run `dir`/train, those of the validation as `dir`/validation, so that TensorBoard draws both in one
// picture. A training that continues replaces the steps after the one that it continues from
// (SummaryOptions::purge_step). A failure to write is reported once, when the training ends, and is no error. Errors: a
// folder cannot be made; there is no such variable.
CallbackPtr TensorBoardLog(std::string dir, const TensorBoardLogOptions& options = {});

// ---- What ends a training, or changes it. A callback that monitors an output reads it at the end of each epoch:
// "loss" is the mean over the epoch, "val_loss" that of the validation; epochs without validation do not count, and NaN
// is never better. Errors: an option is wrong; there is no such output (with the nearest name).

enum class Best { kLowest, kHighest };

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  Best best = Best::kLowest;
  int64_t patience = 1;  // ends the training after so many epochs in a row that were no better, >= 1
  double min_delta = 0;  // better by more than that, >= 0
  // Sets all variables to what they were after the best epoch, also if the training was not stopped. A copy of them is
  // kept in memory. A training that continues from a backup (BackupAndResume) has no copy of the epochs before the
  // backup.
  bool restore_best = false;
};
CallbackPtr EarlyStopping(const EarlyStoppingOptions& options = {});

struct ReduceOnPlateauOptions {
  // The float scalar that holds the rate: a variable of the program, or an input of FitOptions::fed. An optimizer takes
  // it as its rate (train/optim/rates.h).
  std::string rate = "rate";
  std::string monitor = "val_loss";
  Best best = Best::kLowest;
  double factor = 0.1;    // of the new rate, in (0, 1)
  int64_t patience = 10;  // lowers the rate after so many epochs in a row that were no better, >= 1
  double min_delta = 1e-4;
  int64_t cooldown = 0;  // epochs after a new rate that are not counted
  double min_rate = 0;
};
// Like ReduceLROnPlateau of Keras. Errors: there is no such variable or fed input; it is no float scalar.
CallbackPtr ReduceOnPlateau(const ReduceOnPlateauOptions& options = {});

struct StopOnNanOptions {
  std::string output = "loss";
  // Names the op that made the first NaN or infinity, by FindFirstNan (train/fit/find_nan.h): goes back to the
  // variables before the step, and computes it once more, op by op. Needs SessionOptions::executor.atomic.
  bool find_op = false;
};
// Error OUT_OF_RANGE: the output of a step is infinite or no number. With `find_op` the session's variables are then
// those before this step. Errors: there is no such output; with find_op, the session's steps cannot be undone.
CallbackPtr StopOnNan(const StopOnNanOptions& options = {});

// ---- What is saved.

struct BestCheckpointOptions {
  std::string dir;  // made where it is missing
  std::string monitor = "val_loss";
  Best best = Best::kLowest;
};
// Saves the variables after each epoch that is better than all before it (Session::Save), with the outputs as metrics
// of the checkpoint, and removes the one before. Session::Restore reads it. Errors: those of Session::Save.
CallbackPtr BestCheckpoint(const BestCheckpointOptions& options);

struct LastCheckpointOptions {
  std::string dir;
  int64_t every_epochs = 1;
  int64_t keep = 1;  // the newest so many stay
};
// Saves the variables after every so many-th epoch, and when the training ends or is stopped.
CallbackPtr LastCheckpoint(const LastCheckpointOptions& options);

struct BackupAndResumeOptions {
  std::string dir;
  // A backup is made `seconds` after the last one began; or, if `steps` is not 0, after each step that `steps` divides.
  // Another one is made when the training ends or is interrupted.
  double seconds = 600;
  int64_t steps = 0;
  int64_t keep = 1;  // the newest so many stay
};
// Continues from the newest backup in the folder, if there is one, also from the middle of an epoch: with the
// variables, the place in the data, the means and metrics of the epoch so far, the history and what the other callbacks
// remember. So a training that was interrupted, and is run again with the same arguments, gives the same weights as one
// that was not; bit by bit if it has the same mesh. A training that has ended returns its history at once. Errors:
// those of CheckpointManager (train/fit/checkpoints.h), which writes the backups, and of FitState::GoOnFrom.
CallbackPtr BackupAndResume(const BackupAndResumeOptions& options);

// ---- A callback of functions; null ones do nothing.

struct LambdasOptions {
  std::function<absl::Status(FitState&state)> on_train_begin = {}, on_epoch_begin = {}, on_step_end = {},
                                              on_epoch_end = {}, on_train_end = {};
};
CallbackPtr Lambdas(LambdasOptions functions);

}  // namespace meshwork
