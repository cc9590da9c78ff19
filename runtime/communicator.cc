#include "meshwork/runtime/communicator.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// The first reason to stop, if any; cheap to ask for in every step.
class AbortReason {
 public:
  void Set(absl::Status reason) {
    MESHWORK_CHECK(!reason.ok());
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!reason_.ok()) return;
    reason_ = std::move(reason);
    aborted_.store(true, std::memory_order_release);
  }
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  absl::Status Get(const std::string& where) {
    if (!aborted()) return absl::OkStatus();
    const std::lock_guard<std::mutex> lock(mutex_);
    return Annotate(reason_, where + ": ");
  }

 private:
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  absl::Status reason_;
};

class ThreadCollective : public Collective {
 public:
  ThreadCollective(CollectivePlan plan, std::span<std::byte* const> addresses, AbortReason& abort)
      : plan_(std::move(plan)), addresses_(addresses), abort_(abort) {
    for (std::vector<WorkSlice>& slices : plan_.slices) SortByWhatIsRead(plan_.transfers, slices);
  }

  void Start(int worker) override {
    if (!abort_.aborted()) RunTransfers(plan_.transfers, plan_.slices[worker], addresses_);
  }
  absl::Status Wait(int) override { return abort_.Get(plan_.where); }

 private:
  CollectivePlan plan_;
  const std::span<std::byte* const> addresses_;
  AbortReason& abort_;
};

class ThreadCommunicator : public Communicator {
 public:
  absl::StatusOr<std::unique_ptr<Collective>> Prepare(CollectivePlan plan,
                                                      std::span<std::byte* const> addresses) override {
    return std::unique_ptr<Collective>(new ThreadCollective(std::move(plan), addresses, abort_));
  }
  void Abort(absl::Status reason) override { abort_.Set(std::move(reason)); }

 private:
  AbortReason abort_;
};

}  // namespace

std::unique_ptr<Communicator> MakeThreadCommunicator() { return std::make_unique<ThreadCommunicator>(); }

}  // namespace meshwork
