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
// There are two sets of feeds. While the step of one set runs, a thread takes the next batch from the source and copies it
// into the other set (train/session/staged_feeds.h), so that the step after it begins at once. This is tf.data's prefetch_to_device, and
// flax's jax_utils.prefetch_to_device(iterator, 2). The batches, their order and the numbers are the same as without it. More
// batches, in the memory of the process, are Pipeline::Prefetch's.
//
// Where the session computes on the CPU there is nothing to copy. Then there is no thread either, unless it is asked for, and
// Next calls the source.
//
// Several domains: each one has its own, which does not communicate. So an error of Next is this domain's alone: end the step in
// the others, too, as Fit and TrainAndEvaluate do (Transport::Abort, or Processes::Tell).
//
// Errors of the source, and of the copy, come from Next where the batch would have come, behind all batches before it.
//
// Thread safety: one thread uses the object. With a thread of its own, the source is called by that thread, by one at a time: for a
// batch while the step before it runs, or earlier. So it may use nothing that the training changes meanwhile, nor the session, and
// gives each batch tensors of its own. The thread begins with the first Next after Start and ends with the data, an error, Stop or
// the object. Stop waits for the call of the source that is running. In the child of a fork Next fails if the parent had a thread;
// the child makes an object of its own.
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
#include "meshwork/train/data/dataset.h"
#include "meshwork/train/session/session.h"
#include "meshwork/train/session/staged_feeds.h"

namespace meshwork {

// What a source gives.
struct NextFeeds {
  Feeds feeds;
  // Comes back with the batch: such as where the data are behind it. So a position counts no batch that was only prefetched.
  std::string position = {};
};

// What a step is given.
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

  // `prefetches`: whether a thread fetches ahead; nothing: where the session computes on a GPU. The session may end before
  // the object. Error: that of Session::NewStagedFeeds.
  static absl::StatusOr<std::unique_ptr<PrefetchToDevice>> Create(const Session& session,
                                                                  std::optional<bool> prefetches = {});
  PrefetchToDevice(const PrefetchToDevice&) = delete;
  PrefetchToDevice& operator=(const PrefetchToDevice&) = delete;
  ~PrefetchToDevice();

  // Begins with another source; the memory of the sets is kept. What was prefetched of the one before is dropped. Of `most`
  // batches the last one is the end: the source is asked for no more.
  void Start(Source source, int64_t most = kAll);
  // Waits for the next batch. It is valid until the next call of any function: call it when the step of the batch before has
  // ended. Null at the end of the data; after that, and after an error, the same again. Errors: those of the source, and
  // what it throws in the thread; without a thread it throws; those of StagedFeeds::Stage; there is no source.
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
  std::optional<Filled> last_;  // why no more batches come, where no thread says so
  UnlessForked<Sets> sets_;
  ForkMark begun_;
  UnlessForked<Fetcher> fetcher_;  // null until the first Next; the last: its thread uses the sets
};

// The source of one walk over the batches of an epoch. It throws what the walk throws (Dataset::Batches).
PrefetchToDevice::Source FeedsOfBatches(BatchRange batches, std::function<Feeds(const Batch& batch)> feeds);

}  // namespace meshwork
