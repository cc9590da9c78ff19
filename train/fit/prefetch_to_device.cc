#include "meshwork/train/fit/prefetch_to_device.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "meshwork/base/clock.h"
#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/input_wait.h"

namespace meshwork {

// The thread that fills the sets by turns, and who has which set.
class PrefetchToDevice::Fetcher {
 public:
  // Throws std::system_error if the system refuses a thread.
  Fetcher(Source source, Sets& sets)
      : source_(std::move(source)), sets_(sets), thread_([this] { FillAll(); }) {}
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;
  ~Fetcher() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Gives back the set of the batch before, and takes the next one. Null: the end.
  absl::StatusOr<const PrefetchedFeeds*> Next() {
    std::unique_lock lock(mutex_);
    if (is_lent_) {
      is_lent_ = false;
      ++returned_;
      changed_.notify_all();
    }
    changed_.wait(lock, [this] { return filled_ > returned_ || last_.has_value(); });
    if (filled_ == returned_) {
      if (!last_->ok()) return last_->status();
      return nullptr;
    }
    is_lent_ = true;
    return &sets_[returned_ % sets_.size()];
  }

 private:
  void FillAll() {
    for (size_t next = 0;; ++next) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || next < returned_ + sets_.size(); });
        if (stopped_) return;
      }
      Filled filled = FillCatching(sets_[next % sets_.size()]);
      const bool goes_on = filled.ok() && *filled;
      {
        const std::lock_guard lock(mutex_);
        if (goes_on) ++filled_;
        else last_ = std::move(filled);
      }
      changed_.notify_all();
      if (!goes_on) return;
    }
  }

  Filled FillCatching(PrefetchedFeeds& set) {
    try {
      return Fill(source_, /*stages=*/true, set);
    } catch (const absl::BadStatusOrAccess& error) {
      return error.status();
    } catch (...) {
      return CaughtStatus("The next batch", "there is not enough memory for it");
    }
  }

  const Source source_;
  Sets& sets_;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  size_t filled_ = 0, returned_ = 0;  // batches: number i is in set i % 2
  bool is_lent_ = false;              // batch number returned_
  std::optional<Filled> last_;        // why no more batches come
  bool stopped_ = false;
  std::thread thread_;  // the last: it uses all others
};

absl::StatusOr<std::unique_ptr<PrefetchToDevice>> PrefetchToDevice::Create(const Session& session,
                                                                           std::optional<bool> prefetches) {
  UnlessForked<Sets> sets(new Sets{PrefetchedFeeds{.staged = StagedFeeds(nullptr)},
                                   PrefetchedFeeds{.staged = StagedFeeds(nullptr)}});
  for (PrefetchedFeeds& set : *sets) {
    MESHWORK_ASSIGN_OR_RETURN(set.staged, session.NewStagedFeeds());
  }
  const bool is_on_host = sets->front().staged.is_on_host();
  return std::unique_ptr<PrefetchToDevice>(
      new PrefetchToDevice(std::move(sets), prefetches.value_or(!is_on_host)));
}

PrefetchToDevice::PrefetchToDevice(UnlessForked<Sets> sets, bool prefetches)
    : prefetches_(prefetches), sets_(std::move(sets)) {}
PrefetchToDevice::~PrefetchToDevice() = default;

void PrefetchToDevice::Start(Source source, int64_t most) {
  Stop();
  source_ = [source = std::move(source), left = most]() mutable -> absl::StatusOr<std::optional<NextFeeds>> {
    if (left-- <= 0) return std::nullopt;
    return source();
  };
}

void PrefetchToDevice::Stop() {
  if (fetcher_ != nullptr && !begun_.is_here()) return;  // the parent's, as Next says
  fetcher_.reset();
  source_ = nullptr;
  last_.reset();
  for (PrefetchedFeeds& set : *sets_) {
    set.feeds.clear();
    set.staged.Clear();
  }
}

PrefetchToDevice::Filled PrefetchToDevice::Fill(const Source& source, bool stages, PrefetchedFeeds& set) {
  set.feeds.clear();  // their memory may be used again
  set.staged.Clear();
  MESHWORK_ASSIGN_OR_RETURN(std::optional<NextFeeds> next, source());
  if (!next.has_value()) return false;
  set.feeds = std::move(next->feeds);
  set.position = std::move(next->position);
  if (stages) MESHWORK_RETURN_IF_ERROR(set.staged.Stage(set.feeds));
  return true;
}

PrefetchToDevice::Source FeedsOfBatches(const Pipeline& batches,
                                        std::function<Feeds(const Batch& batch)> feeds) {
  return [walk = batches.Begin(),
          feeds = std::move(feeds)]() mutable -> absl::StatusOr<std::optional<NextFeeds>> {
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<Batch> batch, walk.Next());
    if (!batch.has_value()) return std::nullopt;
    return NextFeeds{.feeds = feeds(*batch)};
  };
}

absl::StatusOr<const PrefetchedFeeds*> PrefetchToDevice::Ended() const {
  if (!last_->ok()) return last_->status();
  return nullptr;
}

absl::StatusOr<const PrefetchedFeeds*> PrefetchToDevice::NextHere() {
  PrefetchedFeeds& set = sets_->front();
  Filled filled = Fill(source_, /*stages=*/false, set);
  if (filled.ok() && *filled) return &set;
  last_ = std::move(filled);
  return Ended();
}

absl::StatusOr<const PrefetchedFeeds*> PrefetchToDevice::Next() {
  if (last_.has_value()) return Ended();
  if (fetcher_ == nullptr && source_ == nullptr)
    return absl::FailedPreconditionError(
        "PrefetchToDevice: there is no source of batches; call Start first.");
  if (!prefetches_) return NextHere();
  if (fetcher_ == nullptr) {
    try {
      fetcher_ = UnlessForked<Fetcher>(new Fetcher(std::exchange(source_, nullptr), *sets_));
    } catch (...) {
      last_ = CaughtStatus("PrefetchToDevice", "there is not enough memory for a thread");
      return Ended();
    }
    begun_ = ForkMark();
  }
  MESHWORK_RETURN_IF_ERROR(begun_.Check("PrefetchToDevice"));
  const double start = SteadySeconds();
  absl::StatusOr<const PrefetchedFeeds*> next = fetcher_->Next();
  AddInputWait(SteadySeconds() - start);
  return next;
}

}  // namespace meshwork
