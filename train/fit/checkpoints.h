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
// A checkpoint holds all variables of the session, those of optimizers, too, and the facts that the program notes. A
// step waits while the variables are copied; then a thread writes them while training goes on
// (storage/checkpoint_writer.h). Random numbers of a program depend on seeds and on its variables alone, so nothing
// else is needed to go on as if there had been no stop.
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
#include "meshwork/session/session.h"
#include "meshwork/storage/checkpoint_writer.h"
#include "meshwork/train/cluster/pulse.h"

namespace meshwork {

struct CheckpointOptions {
  std::string dir = {};
  // When a checkpoint is due: `seconds` after the last one began, or, if `steps` is not 0, after each step that `steps`
  // divides. If `seconds` decides, no checkpoint begins while another one is being written; if `steps` decides, the
  // training waits for that one.
  double seconds = 600;
  int64_t steps = 0;
  int64_t keep = 5;              // the newest so many stay
  std::string best_metric = {};  // the one with the best value of this metric stays, too; "": none does
  bool lowest_is_best = true;
  // If false, the training waits until a checkpoint is written.
  bool background = true;
  // Whether Open accepts a folder that has checkpoints. If not, it refuses them as those of another training.
  bool resume = false;
  // Processes::generation(). Above 0, the training has lost a process: it continues from its own checkpoints, as with
  // `resume`, and takes the folder over from a process that is no longer among its members.
  int64_t generation = 0;
  std::function<double()> clock = {};  // in seconds; null: the steady clock
  // Gets each line about a checkpoint that failed; null: standard error.
  std::function<void(std::string_view)> report = {};
};

class CheckpointManager {
 public:
  // Locks the folder, made where it is missing. `session` and `pulse` must outlive the manager. Errors: an option is
  // wrong, or differs between domains; the folder has checkpoints, and `resume` is not set; another job writes there;
  // those of the system.
  static absl::StatusOr<std::unique_ptr<CheckpointManager>> Open(const CheckpointOptions& options,
                                                                 Session& session, Pulse& pulse);
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;
  // If Finish was not called, as after an error, gives up a checkpoint that other domains do not finish soon.
  ~CheckpointManager();

  // Restores the variables from the newest checkpoint that can be used, and returns what it notes; nothing if the
  // folder has none. Errors: those of Session::Restore.
  absl::StatusOr<std::optional<CheckpointNote>> Restore(const RestoreOptions& options = {});

  // After step number `step`, from 1, and after Pulse::AfterStep. If a checkpoint is due, copies the variables, and
  // begins to write them with note(), whose step is `step`. Returns whether it did: all domains alike. Errors: those of
  // the transport.
  absl::StatusOr<bool> AfterStep(int64_t step, const std::function<CheckpointNote()>& note);

  // Waits for what is being written, then writes a last checkpoint unless there is one of this step, and waits for it.
  // Error, in all domains: that last one could not be written.
  absl::Status Finish(const CheckpointNote& note);

  // The step of the last checkpoint of this training that is known to be complete, or of the one from which it
  // continued. -1: there is none.
  int64_t last_step() const { return last_step_; }

 private:
  CheckpointManager(const CheckpointOptions& options, Session& session, Pulse& pulse);

  // `former`: processes that may still hold the folder's lock, though they are no longer members.
  absl::Status OpenWriter(const std::string& job, const std::vector<std::string>& former);
  // The holders of the folder that these processes remember. A process that was started in place of a lost one
  // remembers none.
  absl::StatusOr<std::vector<std::string>> AskForHolders() const;
  // Lets all domains remember the process that holds the folder.
  absl::Status RememberHolder();
  // The text of a pulse, which only the chief fills, and how all domains take it.
  std::string Say();
  absl::Status Hear(const std::vector<std::string>& texts);
  absl::Status Start(const CheckpointNote& note);
  // Waits for the write under way, in all domains. Only errors of the transport are returned.
  absl::Status Await();
  // Waits for this domain's write, and returns how it ended.
  absl::Status End();
  // If a write has ended, notes how, and reports an error.
  void Look();
  // Reports its errors; returns only those of the transport.
  absl::Status Begin(const CheckpointNote& note);
  void Report(const absl::Status& status) const;

  CheckpointOptions options_;
  Session& session_;
  Pulse& pulse_;
  Transport* const transport_;
  std::unique_ptr<CheckpointWriter> writer_;
  bool is_chief_ = false, has_part_ = false, is_finished_ = false;
  bool is_due_ = false;
  bool is_under_way_ = false;  // a write that is not known to have ended in all domains
  double last_begun_ = 0;      // when
  int64_t begun_step_ = -1;    // of the write under way
  int64_t complete_step_ =
      -1;  // the last step whose write ended here; in the chief, the last one that all domains have written
  int64_t last_step_ = -1;  // as the chief told
};

}  // namespace meshwork
