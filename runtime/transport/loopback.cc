#include "meshwork/runtime/transport/loopback.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "meshwork/base/fork.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr std::string_view kLoopback = "Transport";

// The number of AllGathers before the operation, and the number of the operation since the last of them.
using OpNumber = std::pair<int64_t, int64_t>;

// The data that one domain sends to another in one run of an operation. The second of the two domains to come copies
// it.
struct Parcel {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t bytes = 0, expected = 0;
  int64_t sent = 0, awaited = 0;  // how often there was a sender, and a receiver
  int64_t claimed = 0;            // how often somebody began to copy it
  int64_t arrived = 0;            // how often it was copied
  int left = 0;                   // how many of the two do not run the operation any more
};

// The state that all ends share.
class Hub {
 public:
  Hub(int64_t num_domains, const LoopbackOptions& options) : num_domains_(num_domains), options_(options) {}

  int64_t num_domains() const { return num_domains_; }

  void Abort(absl::Status reason) {
    MESHWORK_CHECK(!reason.ok());
    const std::lock_guard lock(mutex_);
    AbortLocked(std::move(reason));
  }

  absl::Status status() {
    const std::lock_guard lock(mutex_);
    return aborted_;
  }

  // The `turn`th question that `domain` asks.
  absl::StatusOr<std::vector<std::string>> AllGather(int64_t domain, int64_t turn, std::string_view what,
                                                     std::string_view text) {
    std::unique_lock lock(mutex_);
    MESHWORK_RETURN_IF_ERROR(aborted_);
    Question& question = questions_[turn];
    question.texts.resize(static_cast<size_t>(num_domains_));
    question.texts[static_cast<size_t>(domain)] = std::string(text);
    changed_.notify_all();
    std::vector<RemotePart> all;
    for (int64_t d = 0; d < num_domains_; ++d) all.push_back({d});
    MESHWORK_RETURN_IF_ERROR(
        Await(lock, fmt::format("Agree on {}", what), domain, all, [&](const RemotePart& asked) {
          return !question.texts[static_cast<size_t>(asked.domain)].has_value();
        }));
    std::vector<std::string> texts;
    for (const std::optional<std::string>& said : question.texts) texts.push_back(*said);
    if (++question.answered == num_domains_) questions_.erase(turn);
    return texts;
  }

  // Begins run number `turn`, from 1 on, of operation `op` by `domain`.
  absl::Status Start(int64_t domain, OpNumber op, int64_t turn, const RemoteSpec& spec,
                     std::span<const std::byte* const> sends, std::span<std::byte* const> receives) {
    std::unique_lock lock(mutex_);
    if (!aborted_.ok()) return Aborted(lock);
    for (size_t i = 0; i < spec.sends.size(); ++i) {
      Parcel& parcel = ParcelOf(op, domain, spec.sends[i].domain);
      parcel.from = sends[i];
      parcel.bytes = spec.sends[i].bytes;
      parcel.sent = turn;
    }
    for (size_t i = 0; i < spec.receives.size(); ++i) {
      Parcel& parcel = ParcelOf(op, spec.receives[i].domain, domain);
      parcel.to = receives[i];
      parcel.expected = spec.receives[i].bytes;
      parcel.awaited = turn;
    }
    for (const RemotePart& part : spec.sends)
      MESHWORK_RETURN_IF_ERROR(CopyIfThere(lock, spec.where, op, domain, part.domain, turn));
    for (const RemotePart& part : spec.receives)
      MESHWORK_RETURN_IF_ERROR(CopyIfThere(lock, spec.where, op, part.domain, domain, turn));
    return absl::OkStatus();
  }

  // Waits for this run to end.
  absl::Status Wait(int64_t domain, OpNumber op, int64_t turn, const RemoteSpec& spec) {
    std::unique_lock lock(mutex_);
    if (!aborted_.ok()) return Aborted(lock);
    MESHWORK_RETURN_IF_ERROR(Await(lock, spec.where, domain, spec.receives, [&](const RemotePart& part) {
      return ParcelOf(op, part.domain, domain).arrived < turn;
    }));
    return Await(lock, spec.where, domain, spec.sends,
                 [&](const RemotePart& part) { return ParcelOf(op, domain, part.domain).arrived < turn; });
  }

  // `domain` does not run it any more.
  void Forget(int64_t domain, OpNumber op, const RemoteSpec& spec) {
    const std::lock_guard lock(mutex_);
    for (const RemotePart& part : spec.sends) Leave({op, domain, part.domain});
    for (const RemotePart& part : spec.receives) Leave({op, part.domain, domain});
  }

 private:
  struct Question {
    std::vector<std::optional<std::string>> texts;  // per domain
    int64_t answered = 0;
  };

  using Key = std::tuple<OpNumber, int64_t, int64_t>;  // operation, sender, receiver

  Parcel& ParcelOf(OpNumber op, int64_t from, int64_t to) { return parcels_[{op, from, to}]; }

  // The second of sender and receiver to leave removes the parcel: the first may leave while the other still waits.
  void Leave(const Key& key) {
    if (++parcels_[key].left == 2) parcels_.erase(key);
  }

  // Copies without the lock: sender and receiver wait until it has arrived. An abort lets them go, so from then on
  // nothing is copied.
  absl::Status CopyIfThere(std::unique_lock<std::mutex>& lock, std::string_view where, OpNumber op,
                           int64_t from, int64_t to, int64_t turn) {
    Parcel& parcel = ParcelOf(op, from, to);
    if (!aborted_.ok()) return Aborted(lock);
    if (parcel.sent < turn || parcel.awaited < turn || parcel.claimed >= turn) return absl::OkStatus();
    parcel.claimed = turn;
    if (parcel.bytes != parcel.expected) {
      AbortLocked(SizeError(where, {from, parcel.bytes}, to, parcel.expected));
      return Aborted(lock);
    }
    ++copying_;
    lock.unlock();
    if (parcel.bytes > 0) std::memcpy(parcel.to, parcel.from, static_cast<size_t>(parcel.bytes));
    lock.lock();
    --copying_;
    parcel.arrived = turn;
    changed_.notify_all();
    return aborted_.ok() ? absl::OkStatus() : Aborted(lock);
  }

  void AbortLocked(absl::Status reason) {
    if (aborted_.ok()) aborted_ = std::move(reason);
    changed_.notify_all();
  }

  // Returns once `is_missing` is false for all of `domains`. Allocates nothing unless it fails. Errors: an abort, after
  // which nobody copies any more; the deadline.
  template <typename IsMissing>
  absl::Status Await(std::unique_lock<std::mutex>& lock, std::string_view where, int64_t domain,
                     const std::vector<RemotePart>& domains, const IsMissing& is_missing) {
    const auto came = [&] {
      return !aborted_.ok() || std::none_of(domains.begin(), domains.end(), is_missing);
    };
    if (!changed_.wait_until(lock, End(), came)) {
      std::vector<int64_t> missing;
      for (const RemotePart& part : domains)
        if (is_missing(part)) missing.push_back(part.domain);
      AbortLocked(LateError(where, missing, options_.deadline, domain));
    }
    return aborted_.ok() ? absl::OkStatus() : Aborted(lock);
  }

  std::chrono::steady_clock::time_point End() const {
    using Clock = std::chrono::steady_clock;
    const auto now = Clock::now();
    return options_.deadline < Clock::time_point::max() - now ? now + options_.deadline
                                                              : Clock::time_point::max();
  }

  // The reason of the abort, once no thread copies any more.
  absl::Status Aborted(std::unique_lock<std::mutex>& lock) {
    changed_.wait(lock, [&] { return copying_ == 0; });
    return aborted_;
  }

  const int64_t num_domains_;
  const LoopbackOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status aborted_;
  int copying_ = 0;  // threads that copy right now
  std::map<int64_t, Question> questions_;
  std::map<Key, Parcel> parcels_;
};

class LoopbackOp : public RemoteOp {
 public:
  LoopbackOp(std::shared_ptr<Hub> hub, int64_t domain, OpNumber number, RemoteSpec spec)
      : hub_(std::move(hub)), domain_(domain), number_(number), spec_(std::move(spec)) {}

  ~LoopbackOp() override {
    if (!made_.is_here()) return;
    Wait().IgnoreError();
    hub_->Forget(domain_, number_, spec_);
  }

  absl::Status Start(std::span<const std::byte* const> sends, std::span<std::byte* const> receives) override {
    MESHWORK_RETURN_IF_ERROR(made_.Check(kLoopback));
    MESHWORK_CHECK(!is_under_way_ && sends.size() == spec_.sends.size() &&
                   receives.size() == spec_.receives.size());
    is_under_way_ = true;
    absl::Status status = hub_->Start(domain_, number_, ++turn_, spec_, sends, receives);
    is_under_way_ = status.ok();
    return status;
  }

  absl::Status Wait() override {
    if (!is_under_way_) return absl::OkStatus();
    MESHWORK_RETURN_IF_ERROR(made_.Check(kLoopback));
    absl::Status status = hub_->Wait(domain_, number_, turn_, spec_);
    is_under_way_ = false;
    return status;
  }

 private:
  const std::shared_ptr<Hub> hub_;
  const int64_t domain_;
  const OpNumber number_;
  const RemoteSpec spec_;
  const ForkMark made_;
  int64_t turn_ = 0;
  bool is_under_way_ = false;
};

class Loopback : public Transport {
 public:
  Loopback(std::shared_ptr<Hub> hub, int64_t domain) : hub_(std::move(hub)), domain_(domain) {}

  int64_t domain() const override { return domain_; }
  int64_t num_domains() const override { return hub_->num_domains(); }
  std::string_view name() const override { return "loopback"; }

  absl::StatusOr<std::vector<std::string>> ExchangeTexts(std::string_view what,
                                                         std::string_view text) override {
    MESHWORK_RETURN_IF_ERROR(made_.Check(kLoopback));
    prepared_ = 0;
    return hub_->AllGather(domain_, asked_++, what, text);
  }

  absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
    MESHWORK_RETURN_IF_ERROR(made_.Check(kLoopback));
    MESHWORK_RETURN_IF_ERROR(hub_->status());
    return std::make_unique<LoopbackOp>(hub_, domain_, OpNumber(asked_, prepared_++), std::move(spec));
  }

  void Abort(absl::Status reason) override {
    if (made_.is_here()) hub_->Abort(std::move(reason));
  }
  absl::Status aborted() override { return made_.is_here() ? hub_->status() : absl::OkStatus(); }

 private:
  const std::shared_ptr<Hub> hub_;
  const int64_t domain_;
  const ForkMark made_;
  int64_t asked_ = 0, prepared_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> MakeLoopback(int64_t num_domains, const LoopbackOptions& options) {
  MESHWORK_CHECK(num_domains >= 1);
  const std::shared_ptr<Hub> hub(new Hub(num_domains, options), DeleteUnlessForked());
  std::vector<std::unique_ptr<Transport>> ends;
  for (int64_t d = 0; d < num_domains; ++d) {
    ends.push_back(std::make_unique<Loopback>(hub, d));
    ends.back()->set_deadline(options.deadline);
  }
  return ends;
}

}  // namespace meshwork
