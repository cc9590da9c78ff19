// PrefetchToDevice: the batches of a training, copied to its device one step ahead.
//
//   MESHWORK_ASSIGN_OR_RETURN(const auto ahead, PrefetchToDevice::Create(session));
//   ahead->Start(source);                                          // gives the feeds of the next step; then nothing
//   while (true) {
//     MESHWORK_ASSIGN_OR_RETURN(const PrefetchedFeeds* const batch, ahead->Next());
//     if (batch == nullptr) break;                                 // the end of the data
//     MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run(batch->feeds, batch->staged));
//   }
//
// There are two sets of feeds. While the step of one set runs, a thread takes the next batch from the source and copies
// it into the other set (session/staged_feeds.h), so that the step after it begins at once. This is tf.data's
// prefetch_to_device, and flax's jax_utils.prefetch_to_device(iterator, 2). The batches, their order and the numbers
// are the same as without it. Pipeline::Prefetch makes more batches ahead, in the memory of the process.
//
// If the session computes on the CPU, there is nothing to copy. Then there is no thread either, unless the caller asks
// for one, and Next calls the source.
//
// With several domains, each has an object of its own, which does not communicate. So only this domain knows of an
// error of Next: end the step in the others, too, as Fit and TrainAndEvaluate do (Transport::Abort, or
// Processes::Tell).
//
// Next returns an error of the source, or of the copy, in the place of its batch, after all batches before it.
//
// Thread safety: one thread uses the object. If the object has a thread, only that thread calls the source, while the
// step before the batch runs, or earlier. So the source must not use the session, nor anything that the training
// changes meanwhile, and must give each batch tensors of its own. The thread begins with the first Next after Start and
// ends with the data, an error, Stop or the object. Stop waits for a running call of the source. In the child of a fork
// Next fails if the parent had a thread; the child makes an object of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/session/session.h"
#include "meshwork/session/staged_feeds.h"
#include "meshwork/train/data/pipeline.h"

namespace meshwork {

// One result of a source.
struct NextFeeds {
  Feeds feeds;
  // Returned with the batch; for example the position of the data behind it. So no position counts a batch that was
  // only prefetched.
  std::string position = {};
};

// The input of a step.
struct PrefetchedFeeds {
  Feeds feeds;
  std::string position;
  StagedFeeds staged;
};

class PrefetchToDevice {
 public:
  // The feeds of the next step; nothing at the end.
  using Source = std::function<absl::StatusOr<std::optional<NextFeeds>>()>;
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

  // `prefetches`: whether a thread fetches ahead; nothing: where the session computes on a GPU. The session may end
  // before the object. Error: that of Session::NewStagedFeeds.
  static absl::StatusOr<std::unique_ptr<PrefetchToDevice>> Create(const Session& session,
                                                                  std::optional<bool> prefetches = {});
  PrefetchToDevice(const PrefetchToDevice&) = delete;
  PrefetchToDevice& operator=(const PrefetchToDevice&) = delete;
  ~PrefetchToDevice();

  // Begins with another source, and drops the prefetched batch of the one before; the memory of the sets is kept. At
  // most `most` batches are taken from the source.
  void Start(Source source, int64_t most = kAll);
  // Waits for the next batch. It is valid until the next call of any function, so call Next only when the step of the
  // last batch has ended. Null at the end of the data. After the end, and after an error, it returns the same again.
  // Errors: those of the source; exceptions of the source (if there is no thread, Next throws them); those of
  // StagedFeeds::Stage; there is no source.
  absl::StatusOr<const PrefetchedFeeds*> Next();
  // Drops the source and what was prefetched.
  void Stop();

  // Whether a thread fetches ahead.
  bool prefetches() const { return prefetches_; }

 private:
  class Fetcher;
  // True: a batch. False: the end.
  using Filled = absl::StatusOr<bool>;
  using Sets = std::array<PrefetchedFeeds, 2>;

  PrefetchToDevice(UnlessForked<Sets> sets, bool prefetches);
  absl::StatusOr<const PrefetchedFeeds*> NextHere();
  absl::StatusOr<const PrefetchedFeeds*> Ended() const;
  static Filled Fill(const Source& source, bool stages, PrefetchedFeeds& set);

  const bool prefetches_;
  Source source_;               // null once a thread has it
  std::optional<Filled> last_;  // why no more batches come, if there is no thread to say so
  UnlessForked<Sets> sets_;
  ForkMark begun_;
  UnlessForked<Fetcher> fetcher_;  // null until the first Next; the last: its thread uses the sets
};

// The source of one walk over these batches, such as those of an epoch (Dataset::Batches).
PrefetchToDevice::Source FeedsOfBatches(const Pipeline& batches,
                                        std::function<Feeds(const Batch& batch)> feeds);

}  // namespace meshwork
