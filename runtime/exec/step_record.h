// StepRecord: how many steps have changed the variables that some executors share, and the way back from the last one.
//
//   auto record = std::make_shared<StepRecord>();
//   MESHWORK_ASSIGN_OR_RETURN(auto step, Executor::Create(program, backend, {.atomic = true, .record = record}, &state));
//   …
//   record->done();                                           // steps
//   MESHWORK_RETURN_IF_ERROR(record->Undo());                 // the variables are what they were before the last one
//
// Domains need this if one of them fails: some may have ended a step that others have not. They are at most one step
// apart, because no domain ends a step before all have begun it (runtime/plan/fence.h). Those that are ahead undo the
// step.
//
// Thread safety: one thread at a time, and none while a step runs.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/runtime/exec/dtensor.h"

namespace meshwork {

class StepRecord {
 public:
  // The number of steps that took effect, without those that were undone, counted on from set_done.
  int64_t done() const { return done_; }
  void set_done(int64_t steps) { done_ = steps; }

  // Whether the values before the last step are still there: no other step has begun to write since.
  bool can_undo() const { return last_ != nullptr; }
  // The variables are again what they were before the last step. Writes to them after that step, by other means than a
  // step, are undone, too. Error: FailedPrecondition, !can_undo().
  absl::Status Undo();

  // The values before the last step are not there any more: another step has begun to write to spares.
  void Forget() { last_.reset(); }
  // A step has ended. `updated`: the variables whose spares hold the values before it; null: their values are lost.
  void End(std::shared_ptr<std::vector<DTensor>> updated) {
    ++done_;
    last_ = std::move(updated);
  }

 private:
  int64_t done_ = 0;
  std::shared_ptr<std::vector<DTensor>> last_;
};

}  // namespace meshwork
