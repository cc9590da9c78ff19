// CheckpointManager: a training that writes checkpoints, and goes on from the newest one.
//
//   Pulse pulse(transport, {.stop = IsStopAsked});                                  // train/cluster/pulse.h
//   MESHWORK_ASSIGN_OR_RETURN(auto checkpoints, CheckpointManager::Open({.dir = "runs/a"}, session, pulse));
//   MESHWORK_ASSIGN_OR_RETURN(const std::optional<CheckpointNote> saved, checkpoints->Restore());
//   int64_t step = saved.has_value() ? saved->step : 0;
//   auto note = [&]() -> CheckpointNote { return {.step = step, .facts = {{"epoch", …}, {"batch", …}}}; };
//   while (step < steps && !pulse.stops()) {
//     …
//     ++step;
//     MESHWORK_RETURN_IF_ERROR(pulse.AfterStep());
//     MESHWORK_RETURN_IF_ERROR(checkpoints->AfterStep(step, note).status());        // begins one if it is due
//   }
//   MESHWORK_RETURN_IF_ERROR(checkpoints->Finish(note()));
//
// A checkpoint holds all variables of the session, those of optimizers, too, and what the program notes besides. A step
// waits while they are copied; they are written meanwhile by a thread (storage/checkpoint_writer.h). Random numbers of a
// program depend on seeds and on its variables alone, so nothing else is needed to go on as if there had been no stop.
//
// A checkpoint that cannot be written is reported, training goes on, and the next one is tried.
//
// All domains of the session make a manager, and call its functions in the same order; each must see the same folder.
// Functions succeed in all domains, or fail in all.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/storage/checkpoint_writer.h"
#include "meshwork/train/cluster/pulse.h"
#include "meshwork/train/session/session.h"

namespace meshwork {

struct CheckpointOptions {
  std::string dir = {};
  // When a checkpoint is due: so many seconds after the last one began, or, if `steps` is not 0, after each step that it
  // divides. By the seconds, no checkpoint begins while another one is being written; by steps, the training waits then.
  double seconds = 600;
  int64_t steps = 0;
  int64_t keep = 5;              // the newest so many stay
  std::string best_metric = {};  // the one with the best value of this metric stays, too; "": none does
  bool lowest_is_best = true;
  // Without: the training waits until a checkpoint is written.
  bool background = true;
  // Whether a folder that has checkpoints is taken. If not, Open refuses it: they are of another training.
  bool resume = false;
  // Processes::generation(). Above 0 this is a training that lost a process: it goes on from its own checkpoints, as with
  // `resume`, and takes the folder from a process that is no longer among its members.
  int64_t generation = 0;
  std::function<double()> clock = {};  // in seconds; null: the steady clock
  // Gets each line about a checkpoint that failed; null: standard error.
  std::function<void(std::string_view)> report = {};
};

class CheckpointManager {
 public:
  // Locks the folder, made where it is missing. `session` and `pulse` must outlive the manager. Errors: an option is wrong,
  // or differs between domains; the folder has checkpoints, and `resume` is not set; another job writes there; those of the
  // system.
  static absl::StatusOr<std::unique_ptr<CheckpointManager>> Open(const CheckpointOptions& options,
                                                                 Session& session, Pulse& pulse);
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;
  // Without Finish, as after an error: a checkpoint that other domains do not finish soon is given up.
  ~CheckpointManager();

  // Restores the variables from the newest checkpoint that can be used, and returns what it notes; nothing if the folder
  // has none. Errors: those of Session::Restore.
  absl::StatusOr<std::optional<CheckpointNote>> Restore(const RestoreOptions& options = {});

  // After step number `step`, from 1, and after Pulse::AfterStep. If a checkpoint is due, copies the variables, and begins
  // to write them with note(), whose step is `step`. Returns whether it did: all domains alike. Errors: those of the
  // transport.
  absl::StatusOr<bool> AfterStep(int64_t step, const std::function<CheckpointNote()>& note);

  // Waits for what is being written, then writes a last checkpoint unless there is one of this step, and waits for it.
  // Error, in all domains: that last one could not be written.
  absl::Status Finish(const CheckpointNote& note);

  // Of the last checkpoint that is known to be complete, by this training; or from which it went on. -1: there is none.
  int64_t last_step() const { return last_step_; }

 private:
  CheckpointManager(const CheckpointOptions& options, Session& session, Pulse& pulse);

  // `former`: who may still hold the folder's lock, though it is no longer among these processes.
  absl::Status OpenWriter(const std::string& job, const std::vector<std::string>& former);
  // What these processes remember of that. One that was started in place of a lost one knows nothing.
  absl::StatusOr<std::vector<std::string>> AskForHolders() const;
  // All domains know who has the folder.
  absl::Status RememberHolder();
  // What the chief says in a pulse, and what all hear.
  std::string Say();
  absl::Status Hear(const std::vector<std::string>& texts);
  absl::Status Start(const CheckpointNote& note);
  // Waits for the write under way, in all domains; only errors of the transport.
  absl::Status Await();
  // Waits for it here, and returns how it ended.
  absl::Status End();
  // If a write has ended, notes how, and reports an error.
  void Look();
  // Reports errors, but for those of the transport.
  absl::Status Begin(const CheckpointNote& note);
  void Report(const absl::Status& status) const;

  CheckpointOptions options_;
  Session& session_;
  Pulse& pulse_;
  Transport* const transport_;
  std::unique_ptr<CheckpointWriter> writer_;
  bool is_chief_ = false, has_part_ = false, is_finished_ = false;
  bool is_due_ = false;
  bool is_under_way_ = false;  // a write, which not all domains know to have ended
  double last_begun_ = 0;      // when
  int64_t begun_step_ = -1;    // of the write under way
  int64_t complete_step_ =
      -1;                   // of the last one that was complete, here; of all domains only the chief knows
  int64_t last_step_ = -1;  // as the chief told
};

}  // namespace meshwork
