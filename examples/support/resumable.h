// The work of a training between steps: it stops and resumes, as --checkpoint-dir, --checkpoint-every, --resume,
// --keep-checkpoints and --recover say, and compares replicas, as --check-replicas says.
//
//   MESHWORK_ASSIGN_OR_RETURN(auto training, Resumable::Begin(options, session, {{"batch_size", "128"}}));
//   training->PrintFrom();
//   int64_t step = training->first_step();
//   auto facts = [&]() -> CheckpointFacts { return {{"epoch", …}}; };
//   while (step < steps && training->goes_on()) {
//     …
//     MESHWORK_RETURN_IF_ERROR(training->AfterStep(++step, facts));
//   }
//   MESHWORK_RETURN_IF_ERROR(training->End(step, facts()));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/support/training_run.h"
#include "meshwork/train/cluster/pulse.h"
#include "meshwork/train/fit/checkpoints.h"

namespace meshwork {

class Resumable {
 public:
  // After a loss, the session continues from the state in the memory of the remaining processes, if it is whole; else
  // from the newest checkpoint. Without --checkpoint-dir, there are none, and signals end the process. `fixed`:
  // facts that must be equal in the checkpoint, because they determine the next examples; each is named after its flag.
  // Errors: those of
  // MakeReplicaCheck, of CheckpointManager::Open and Restore, and of Processes::Recover; a fact differs.
  static absl::StatusOr<std::unique_ptr<Resumable>> Begin(const RunOptions& options, Session& session,
                                                          CheckpointFacts fixed);

  // The number of steps in the checkpoint or the memory from which it continues, or 0. PrintFrom prints it, if any.
  int64_t first_step() const { return from_.has_value() ? from_->step : 0; }
  void PrintFrom() const;
  // The number under this name in the facts of the checkpoint, or 0.
  int64_t Number(const std::string& fact) const;
  double Real(const std::string& fact) const;

  // All processes call it after each step; `step` counts from 1. Errors: those of ReplicaCheck, Pulse and
  // CheckpointManager.
  absl::Status AfterStep(int64_t step, const std::function<CheckpointFacts()>& facts);
  // False once a signal has asked a process to stop.
  bool goes_on() const { return !pulse_.stops(); }

  // Writes the last checkpoint. After a signal, prints how to go on. Errors: that of CheckpointManager::Finish.
  absl::Status End(int64_t step, const CheckpointFacts& facts);

 private:
  Resumable(const RunOptions& options, Session& session, CheckpointFacts fixed);
  absl::Status OpenCheckpoints();
  absl::Status CheckFixed() const;
  CheckpointNote Note(int64_t step, CheckpointFacts facts) const;

  const RunOptions& options_;
  Session& session_;
  const CheckpointFacts fixed_;
  Pulse pulse_;
  ReplicaCheck replicas_;
  std::unique_ptr<CheckpointManager> checkpoints_;  // null without --checkpoint-dir; ends before the pulse
  std::optional<CheckpointNote> from_;
  bool is_from_memory_ = false;
};

}  // namespace meshwork
