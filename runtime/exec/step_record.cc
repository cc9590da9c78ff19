#include "meshwork/runtime/exec/step_record.h"

namespace meshwork {

absl::Status StepRecord::Undo() {
  if (!can_undo())
    return absl::FailedPreconditionError(
        "Undo: the values before the last step are not there: no step was made with ExecutorOptions::atomic, the last one "
        "was undone, or another one has begun to write.");
  for (DTensor& variable : *last_) variable.SwapSpare();
  --done_;
  last_.reset();
  return absl::OkStatus();
}

}  // namespace meshwork
