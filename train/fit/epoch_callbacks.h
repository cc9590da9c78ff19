// EpochCallbacks: calls callbacks (train/fit/callbacks.h) for a training whose steps are made elsewhere, as by the
// workers of parameter servers: when it begins and ends, and where its epochs do.
//
//   EpochCallbacks calls(session, {.callbacks = callbacks, .epochs = 3, .steps_per_epoch = 200});
//   MESHWORK_RETURN_IF_ERROR(calls.BeginTraining());
//   for (int64_t epoch = 0; epoch < 3 && !calls.stops(); ++epoch) {
//     MESHWORK_RETURN_IF_ERROR(calls.BeginEpoch(epoch));
//     …                                                          // 200 steps; the session gets the new variables
//     MESHWORK_RETURN_IF_ERROR(calls.EndEpoch(std::move(log)));
//   }
//   return calls.EndTraining();
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/train/cluster/pulse.h"
#include "meshwork/train/fit/callbacks.h"
#include "meshwork/train/fit/history.h"

namespace meshwork {

struct EpochCallbacksOptions {
  std::vector<CallbackPtr> callbacks = {};
  int64_t epochs = 1, steps_per_epoch = 1;
  bool has_validation = false;
  std::function<void(std::string_view line)> log = {};  // null: the log, at level info
};

class EpochCallbacks {
 public:
  // `session`: FitState::session(); it must outlive this, and may be null if there are no callbacks.
  EpochCallbacks(Session* session, const EpochCallbacksOptions& options);
  EpochCallbacks(const EpochCallbacks&) = delete;
  EpochCallbacks& operator=(const EpochCallbacks&) = delete;
  ~EpochCallbacks();

  // Errors: those of Callback::CheckServed; a callback is null; those of the callbacks.
  absl::Status BeginTraining();
  // In a training that is continued, the first epoch is not 0.
  absl::Status BeginEpoch(int64_t epoch);
  // Adds the epoch to the history.
  absl::Status EndEpoch(EpochLog epoch);
  // The training ends before the end of its last epoch, and may be continued.
  void Interrupt(std::string why);
  // Returns the history; its steps are those of the epochs that have ended.
  absl::StatusOr<History> EndTraining();

  // Whether a callback or Interrupt has stopped the training.
  bool stops() const { return state_.stops(); }
  const History& history() const { return state_.history(); }

 private:
  absl::Status Call(absl::Status (Callback::*when)(FitState& state));

  const EpochCallbacksOptions options_;
  std::vector<CallbackPtr> callbacks_;  // in the order in which they are called
  Pulse pulse_;
  FitState state_;
};

}  // namespace meshwork
