// The loop of Fit. Only this room uses it.
//
// Thread safety: the session's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/log.h"
#include "meshwork/train/fit/data_agreement.h"
#include "meshwork/train/fit/fit.h"
#include "meshwork/train/fit/output_means.h"
#include "meshwork/train/fit/prefetch_to_device.h"

namespace meshwork {

namespace internal {

// Ends the session in all domains if `status` is an error, which other domains may not have. Returns `status`.
absl::Status FailInAll(const Session& session, absl::Status status);
// The feeds of a step: what `function` makes of the batch, or, if it is null, the columns of the batch; and `fed`,
// which is the same in all steps.
absl::StatusOr<Feeds> FeedsOf(const Example& batch, const FeedFunction& function, const Feeds& fed);
// The outputs of FitOptions on the validation data. Errors are those of all domains.
absl::StatusOr<Metrics> Validate(Session& session, const FitOptions& options, const Feeds& fed);
absl::Status NoBatchOf(const Pipeline& data);
// Error: one is null.
absl::Status CheckCallbacks(const std::vector<CallbackPtr>& callbacks);
// The callbacks in the order of their calls: those with is_last() come behind the others.
std::vector<CallbackPtr> InOrderOfCalls(std::vector<CallbackPtr> callbacks);

}  // namespace internal

class FitLoop {
 public:
  // All arguments must outlive the loop. REQUIRES: they are right.
  FitLoop(Session& session, const Pipeline& data, const FitOptions& options);
  FitLoop(const FitLoop&) = delete;
  FitLoop& operator=(const FitLoop&) = delete;
  ~FitLoop();

  absl::StatusOr<History> Run();

 private:
  friend class FitState;

  absl::StatusOr<History> Train();
  // A line where FitOptions::log says, in domain 0.
  void Say(LogLevel level, std::string_view line) const;
  // Says on which devices the training runs, and where it is saved.
  void SayWhatBegins() const;
  // After an error: from which step one can go on, and how.
  void SayHowToGoOn() const;
  absl::Status Begin();
  // Between two epochs: all go on, or all stop.
  absl::Status AgreeToGoOn();
  // Trains the rest of the epoch, or until something stops it.
  absl::Status TrainEpoch();
  // Goes on with this walk over the data.
  void Walk(PipelineIterator batches);
  void EndWalk();
  // Whether a batch may be made that no step takes, because a thread fetches ahead, or because another process stops
  // before that step.
  bool is_ahead() const { return ahead_->prefetches() || !agreement_.is_alone(); }
  // The steps left in the whole training, as far as that is known.
  int64_t StepsLeft() const;
  // Called by the thread that fetches ahead, if there is one.
  absl::StatusOr<std::optional<NextFeeds>> Fetch(PipelineIterator& batches, bool saves);
  // The next batch; null at the end of the epoch, or where a walk has no batch.
  absl::StatusOr<const PrefetchedFeeds*> Next();
  std::string WhereNow() const;
  // The next step and its batch, for other processes.
  std::string Place(int64_t examples) const;
  // Returns whether the step was taken; if not, something stopped the training before it.
  absl::StatusOr<bool> Step(const PrefetchedFeeds& batch);
  // Called when Next has no batch: checks that all processes are at the end of the epoch.
  absl::Status EndData();
  absl::Status EndEpoch();
  // Takes over what the processes have agreed on.
  void StopIfAgreed();
  // Whether the epoch is to be left before its end.
  bool IsCut() const;
  absl::Status Call(absl::Status (Callback::*when)(FitState& state));
  absl::Status Mine(absl::Status status) const { return internal::FailInAll(session_, std::move(status)); }

  absl::StatusOr<CheckpointNote> Note() const;
  absl::Status GoOnFrom(const CheckpointNote& note);

  Session& session_;
  const Pipeline& data_;
  const FitOptions& options_;
  const std::function<double()> seconds_;
  Pulse pulse_;
  DataAgreement agreement_;
  FitState state_;
  std::vector<CallbackPtr> callbacks_;  // in the order in which they are called
  std::vector<std::string> saved_;      // of the callbacks, by a note; until they are restored
  OutputMeans means_;

  int64_t walk_;          // over the data, counted from 0
  std::string position_;  // in the walk, behind the last step; if the iterator is null or may be ahead
  std::optional<PipelineIterator> batches_;
  bool has_begun_ = false;                   // Begin has succeeded
  bool is_empty_ = true;                     // the walk, so far
  bool is_between_ = false;                  // the epoch has ended, the next one has not begun
  double epoch_seconds_ = 0;                 // of the steps of this epoch that are done
  bool reads_data_ = false;                  // in Fetch; after an error of Fetch: whether the data failed
  std::unique_ptr<PrefetchToDevice> ahead_;  // the last: its thread calls Fetch
};

}  // namespace meshwork
