// The Fit of parameter servers.
#include <algorithm>
#include <chrono>
#include <utility>

#include "meshwork/base/log.h"
#include "meshwork/base/status.h"
#include "meshwork/train/fit/fit.h"
#include "meshwork/train/parameter_server/rpc/parameter_server_strategy.h"

namespace meshwork {

absl::StatusOr<History> ParameterServerTraining::Fit(const ParameterServerFitOptions& options) {
  if (options.epochs < 1 || options.steps_per_epoch < 1)
    return InvalidArgument(
        "ParameterServerTraining::Fit: {} epochs of {} steps; both must be at least 1. A worker's data are walked without "
        "end, so only steps_per_epoch says how long an epoch is.",
        options.epochs, options.steps_per_epoch);
  bool has_begun = false;
  absl::StatusOr<History> history = FitEpochs(options, has_begun);
  if (!history.ok() && has_begun) SayHowToGoOn();
  return history;
}

absl::StatusOr<History> ParameterServerTraining::FitEpochs(const ParameterServerFitOptions& options,
                                                           bool& has_begun) {
  Session* snapshot = nullptr;
  if (!options.callbacks.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(snapshot, Snapshot());
  }
  EpochCallbacks calls(snapshot, {.callbacks = options.callbacks,
                                  .epochs = options.epochs,
                                  .steps_per_epoch = options.steps_per_epoch,
                                  .has_validation = options.validation_data.has_value(),
                                  .log = options.log});
  MESHWORK_RETURN_IF_ERROR(calls.BeginTraining());
  MESHWORK_ASSIGN_OR_RETURN(const int64_t before, StepsDone());
  SayWhatBegins(options, before);
  has_begun = true;
  bool goes_on = true;
  for (int64_t epoch = 0; epoch < options.epochs && goes_on && !calls.stops(); ++epoch) {
    MESHWORK_ASSIGN_OR_RETURN(goes_on, FitEpoch(options, epoch, calls));
  }
  std::optional<int64_t> done;
  if (!goes_on) {
    calls.Interrupt("interrupted by the chief");
    MESHWORK_ASSIGN_OR_RETURN(done, SaveAtStop());
    Log(LogLevel::kWarning, "Fit: interrupted by the chief{}.{}",
        done.has_value()
            ? fmt::format(" after step {} of {}", *done, options.epochs * options.steps_per_epoch)
            : std::string(),
        options_.folder.empty()
            ? " The servers do not save, as they have no folder (ParameterServerOptions::folder)."
            : fmt::format(" The servers have saved in {}; the same program goes on from there.",
                          options_.folder));
  }
  MESHWORK_ASSIGN_OR_RETURN(History history, calls.EndTraining());
  if (done.has_value()) history.steps = *done;
  return history;
}

absl::StatusOr<bool> ParameterServerTraining::FitEpoch(const ParameterServerFitOptions& options,
                                                       int64_t epoch, EpochCallbacks& calls) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t end = (epoch + 1) * options.steps_per_epoch;
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> missing, Missing(end));
  if (missing.empty()) {
    MESHWORK_RETURN_IF_ERROR(Train(end).status());
    return true;
  }
  MESHWORK_RETURN_IF_ERROR(calls.BeginEpoch(epoch));
  EpochLog log = {.epoch = epoch, .steps = options.steps_per_epoch, .step = end};
  MESHWORK_ASSIGN_OR_RETURN(std::optional<Metrics> means, TrainUnless(options.stop, end));
  if (!means.has_value()) return false;
  log.values = *std::move(means);
  log.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  log.examples = log.steps * LeadingInputOf(graph_).rows;
  if (options.validation_data.has_value() || !options.callbacks.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(Session* const snapshot, Snapshot());
    if (options.validation_data.has_value()) {
      MESHWORK_ASSIGN_OR_RETURN(const Metrics validation, Evaluate(*snapshot, *options.validation_data));
      for (const auto& [name, value] : validation) log.values["val_" + name] = value;
    }
  }
  std::string line = fmt::format("epoch {}/{}: step {}", epoch + 1, options.epochs, end);
  for (const auto& [name, value] : log.values) line += fmt::format(", {} {:.4f}", name, value);
  if (options.log != nullptr) options.log(line);
  else fmt::print(stderr, "{}\n", line);
  MESHWORK_RETURN_IF_ERROR(calls.EndEpoch(std::move(log)));
  if (options.after_epoch != nullptr)
    MESHWORK_RETURN_IF_ERROR(options.after_epoch(calls.history().epochs.back()));
  return true;
}

absl::StatusOr<std::optional<int64_t>> ParameterServerTraining::SaveAtStop() {
  const bool has_folder = !options_.folder.empty();
  bool are_there = true;
  for (const auto& store : stores_) {
    // Asked once: a server that the same signal has reached saves by itself, and nobody waits for it. Without a folder,
    // a server that is there refuses.
    const absl::Status saved = store->Save().status();
    if (absl::IsUnavailable(saved)) {
      are_there = false;
      if (has_folder)
        Log(LogLevel::kWarning, "Fit: {} A server that a signal ends saves by itself.", MessageOf(saved));
    } else if (has_folder && !saved.ok()) {
      return saved;
    }
  }
  if (!are_there) return std::nullopt;
  return StepsDone();
}

void ParameterServerTraining::SayWhatBegins(const ParameterServerFitOptions& options, int64_t done) const {
  Log(LogLevel::kInfo, "Fit: {} of {}, {} of them done; {} and {} by gRPC; a worker's mesh {} on {}; {}.",
      Count(options.epochs, "epoch"), Count(options.steps_per_epoch, "step"), done,
      Count(coordinator_->num_workers(), "worker"), Count(std::ssize(stores_), "server"),
      graph_.mesh().ToString(), options_.session.devices,
      options_.folder.empty() ? "saves nothing" : fmt::format("saves in {}", options_.folder));
}

void ParameterServerTraining::SayHowToGoOn() const {
  const int64_t secured = *std::min_element(secured_.begin(), secured_.end());
  Log(LogLevel::kError, "Fit: it has failed. {}",
      options_.folder.empty()
          ? std::string(
                "The servers' variables end with them; ParameterServerOptions::folder has servers save, and lets the same "
                "program go on.")
          : fmt::format("{} in {}; the same program, started in all processes again, goes on from there.",
                        secured > 0
                            ? fmt::format("The servers have saved step {} and maybe later ones", secured)
                            : "The servers' newest checkpoints are",
                        options_.folder));
}

}  // namespace meshwork
