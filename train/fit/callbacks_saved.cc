// The callbacks that save a training.
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "meshwork/train/fit/callbacks.h"
#include "meshwork/train/fit/checkpoints.h"
#include "meshwork/train/fit/monitor.h"

namespace meshwork {
namespace {

absl::Status CheckDir(std::string_view callback, const std::string& dir) {
  if (!dir.empty()) return absl::OkStatus();
  return InvalidArgument("{}: dir is empty; name the folder of the checkpoints.", callback);
}

absl::Status SaveEpochs(const FitState& state, const std::string& dir) {
  const std::vector<EpochLog>& epochs = state.history().epochs;
  const int64_t ended = epochs.empty() ? 0 : epochs.back().epoch + 1;
  CheckpointNote note{.step = state.steps(), .facts = {{"epochs", fmt::format("{}", ended)}}};
  for (const auto& [name, value] : state.logs())
    if (std::isfinite(value)) note.metrics[name] = value;
  return state.session().Save(dir, note);
}

SavedTraining NewestIn(const std::string& dir, bool resumes) {
  return {.dir = dir, .step = NewestStep(dir), .resumes = resumes};
}

// An error of the system is logged, and ignored.
void RemoveSaved(const FitState& state, const std::string& dir, int64_t step) {
  if (!state.is_chief()) return;
  const std::string path = fmt::format("{}/{}", dir, CheckpointName(step));
  const absl::Status status = RemoveCheckpoint(path);
  if (!status.ok() && !absl::IsNotFound(status)) state.Log(MessageOf(status));
}

class SaveBest : public Callback {
 public:
  explicit SaveBest(const BestCheckpointOptions& options)
      : options_(options), monitor_("BestCheckpoint", options.monitor, options.best) {}

  absl::Status OnTrainBegin(FitState& state) override {
    monitor_.Clear();
    saved_step_ = -1;
    MESHWORK_RETURN_IF_ERROR(CheckDir("BestCheckpoint", options_.dir));
    return monitor_.Check(state);
  }
  absl::Status OnEpochEnd(FitState& state) override {
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<double> value, monitor_.Read(state));
    if (!value.has_value() || !monitor_.Improves(*value)) return absl::OkStatus();
    MESHWORK_RETURN_IF_ERROR(SaveEpochs(state, options_.dir));
    if (saved_step_ >= 0 && saved_step_ != state.steps()) RemoveSaved(state, options_.dir, saved_step_);
    saved_step_ = state.steps();
    return absl::OkStatus();
  }
  std::optional<SavedTraining> Saved() const override { return NewestIn(options_.dir, /*resumes=*/false); }
  std::string Save() const override {
    return internal::ToExactText({{"best", monitor_.Save()}, {"step", static_cast<double>(saved_step_)}});
  }
  absl::Status Restore(FitState& /*state*/, std::string_view saved) override {
    MESHWORK_ASSIGN_OR_RETURN(const Metrics numbers,
                              internal::SavedNumbers("BestCheckpoint", saved, {"best", "step"}));
    monitor_.Restore(numbers.at("best"));
    saved_step_ = std::llround(numbers.at("step"));
    return absl::OkStatus();
  }

 private:
  const BestCheckpointOptions options_;
  internal::Monitor monitor_;
  int64_t saved_step_ = -1;
};

class SaveLast : public Callback {
 public:
  explicit SaveLast(const LastCheckpointOptions& options) : options_(options) {}

  absl::Status OnTrainBegin(FitState& /*state*/) override {
    steps_.clear();
    if (options_.every_epochs < 1 || options_.keep < 1)
      return InvalidArgument("LastCheckpoint: every_epochs is {} and keep {}; both must be positive.",
                             options_.every_epochs, options_.keep);
    return CheckDir("LastCheckpoint", options_.dir);
  }
  absl::Status OnEpochEnd(FitState& state) override {
    return (state.epoch() + 1) % options_.every_epochs == 0 ? SaveNow(state) : absl::OkStatus();
  }
  absl::Status OnTrainEnd(FitState& state) override {
    return steps_.empty() || steps_.back() != state.steps() ? SaveNow(state) : absl::OkStatus();
  }
  std::optional<SavedTraining> Saved() const override { return NewestIn(options_.dir, /*resumes=*/false); }
  std::string Save() const override {
    Metrics numbers;
    for (size_t i = 0; i < steps_.size(); ++i)
      numbers[fmt::format("{:06}", i)] = static_cast<double>(steps_[i]);
    return internal::ToExactText(numbers);
  }
  absl::Status Restore(FitState& /*state*/, std::string_view saved) override {
    MESHWORK_ASSIGN_OR_RETURN(const Metrics numbers, internal::SavedNumbers("LastCheckpoint", saved, {}));
    for (const auto& [i, step] : numbers) steps_.push_back(std::llround(step));
    return absl::OkStatus();
  }

 private:
  absl::Status SaveNow(const FitState& state) {
    MESHWORK_RETURN_IF_ERROR(SaveEpochs(state, options_.dir));
    if (steps_.empty() || steps_.back() != state.steps()) steps_.push_back(state.steps());
    while (std::ssize(steps_) > options_.keep) {
      RemoveSaved(state, options_.dir, steps_.front());
      steps_.pop_front();
    }
    return absl::OkStatus();
  }

  const LastCheckpointOptions options_;
  std::deque<int64_t> steps_;  // of the checkpoints that are there, by this training
};

class Backup : public Callback {
 public:
  explicit Backup(const BackupAndResumeOptions& options) : options_(options) {}

  absl::Status OnTrainBegin(FitState& state) override {
    MESHWORK_RETURN_IF_ERROR(CheckDir("BackupAndResume", options_.dir));
    const CheckpointOptions checkpoints{.dir = options_.dir,
                                        .seconds = options_.seconds,
                                        .steps = options_.steps,
                                        .keep = options_.keep,
                                        .resume = true,
                                        .report = [&state](std::string_view line) { state.Log(line); }};
    MESHWORK_ASSIGN_OR_RETURN(manager_, CheckpointManager::Open(checkpoints, state.session(), state.pulse()));
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<CheckpointNote> note, manager_->Restore());
    if (!note.has_value()) return absl::OkStatus();
    MESHWORK_RETURN_IF_ERROR(state.GoOnFrom(*note));
    state.Log(fmt::format("BackupAndResume: goes on after step {} of epoch {} from {}.", state.epoch_steps(),
                          state.epoch() + 1, options_.dir));
    return absl::OkStatus();
  }
  absl::Status OnStepEnd(FitState& state) override {
    // If this is the last step of an epoch, or of the training, OnEpochEnd or OnTrainEnd saves it.
    const bool is_last = state.steps_per_epoch() > 0 && state.epoch_steps() == state.steps_per_epoch();
    return is_last || state.stops() ? absl::OkStatus() : AfterStep(state);
  }
  absl::Status OnEpochEnd(FitState& state) override {
    const bool is_over = state.stops() || state.epoch() + 1 == state.epochs();
    return is_over || state.steps_per_epoch() == 0 ? absl::OkStatus() : AfterStep(state);
  }
  absl::Status OnTrainEnd(FitState& state) override {
    MESHWORK_ASSIGN_OR_RETURN(const CheckpointNote note, state.Note());
    MESHWORK_RETURN_IF_ERROR(manager_->Finish(note));
    if (state.is_interrupted())
      state.Log(fmt::format("BackupAndResume: step {} is saved in {}; the same Fit goes on from there.",
                            state.steps(), options_.dir));
    return absl::OkStatus();
  }
  std::optional<SavedTraining> Saved() const override { return NewestIn(options_.dir, /*resumes=*/true); }
  absl::Status CheckServed() const override {
    return internal::NotServed(
        "BackupAndResume",
        "servers save, and the training goes on from there; give ParameterServerOptions::folder");
  }
  bool is_last() const override { return true; }
  void Release() override { manager_.reset(); }

 private:
  absl::Status AfterStep(const FitState& state) {
    absl::Status failed;
    const auto note = [&]() -> CheckpointNote {
      absl::StatusOr<CheckpointNote> now = state.Note();
      if (now.ok()) return *std::move(now);
      failed = now.status();
      return {.step = state.steps()};
    };
    MESHWORK_RETURN_IF_ERROR(manager_->AfterStep(state.steps(), note).status());
    return failed;
  }

  const BackupAndResumeOptions options_;
  std::unique_ptr<CheckpointManager> manager_;
};

}  // namespace

CallbackPtr BestCheckpoint(const BestCheckpointOptions& options) {
  return std::make_shared<SaveBest>(options);
}
CallbackPtr LastCheckpoint(const LastCheckpointOptions& options) {
  return std::make_shared<SaveLast>(options);
}
CallbackPtr BackupAndResume(const BackupAndResumeOptions& options) {
  return std::make_shared<Backup>(options);
}

}  // namespace meshwork
