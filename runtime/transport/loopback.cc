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

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// The how-manieth AllGather was before, and the how-manieth operation it is since then.
using OpNumber = std::pair<int64_t, int64_t>;

// What one domain lays out for another in one run of an operation.
struct Offer {
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t made = 0;   // how often something was offered
  int64_t taken = 0;  // and copied
};

// What all ends share.
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

  // Run number `turn`, from 1 on, of operation `op` by `domain`.
  absl::Status Exchange(int64_t domain, OpNumber op, int64_t turn, const RemoteSpec& spec,
                        std::span<const std::byte* const> sends, std::span<std::byte* const> receives) {
    std::unique_lock lock(mutex_);
    MESHWORK_RETURN_IF_ERROR(aborted_);
    for (size_t i = 0; i < spec.sends.size(); ++i) {
      Offer& offer = OfferOf(op, domain, spec.sends[i].domain);
      offer.data = sends[i];
      offer.bytes = spec.sends[i].bytes;
      offer.made = turn;
    }
    changed_.notify_all();
    MESHWORK_RETURN_IF_ERROR(Await(lock, spec.where, domain, spec.receives, [&](const RemotePart& part) {
      return OfferOf(op, part.domain, domain).made < turn;
    }));
    for (size_t i = 0; i < spec.receives.size(); ++i) {
      const RemotePart& part = spec.receives[i];
      Offer& offer = OfferOf(op, part.domain, domain);
      if (offer.bytes != part.bytes) {
        AbortLocked(SizeError(spec.where, {part.domain, offer.bytes}, domain, part.bytes));
        return Aborted(lock);
      }
      // Copied without the lock: the sender waits until it is taken. An abort lets it go, so from then on
      // nothing is copied.
      ++copying_;
      lock.unlock();
      if (part.bytes > 0) std::memcpy(receives[i], offer.data, static_cast<size_t>(part.bytes));
      lock.lock();
      --copying_;
      offer.taken = turn;
      changed_.notify_all();
      if (!aborted_.ok()) return Aborted(lock);
    }
    return Await(lock, spec.where, domain, spec.sends,
                 [&](const RemotePart& part) { return OfferOf(op, domain, part.domain).taken < turn; });
  }

  // `domain` does not run it any more.
  void Forget(int64_t domain, OpNumber op, const RemoteSpec& spec) {
    const std::lock_guard lock(mutex_);
    for (const RemotePart& part : spec.sends) offers_.erase({op, domain, part.domain});
  }

 private:
  struct Question {
    std::vector<std::optional<std::string>> texts;  // per domain
    int64_t answered = 0;
  };

  Offer& OfferOf(OpNumber op, int64_t from, int64_t to) { return offers_[{op, from, to}]; }

  void AbortLocked(absl::Status reason) {
    if (aborted_.ok()) aborted_ = std::move(reason);
    changed_.notify_all();
  }

  // Returns once `is_missing` says of none of `domains` that it is. Allocates nothing unless it fails.
  // Errors: an abort, after which nobody copies any more; the deadline.
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

  // The reason, once nobody copies from anybody any more.
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
  std::map<std::tuple<OpNumber, int64_t, int64_t>, Offer> offers_;  // by operation, sender, receiver
};

class LoopbackOp : public RemoteOp {
 public:
  LoopbackOp(std::shared_ptr<Hub> hub, int64_t domain, OpNumber number, RemoteSpec spec)
      : hub_(std::move(hub)), domain_(domain), number_(number), spec_(std::move(spec)) {}

  ~LoopbackOp() override { hub_->Forget(domain_, number_, spec_); }

  absl::Status Run(std::span<const std::byte* const> sends, std::span<std::byte* const> receives) override {
    MESHWORK_CHECK(sends.size() == spec_.sends.size() && receives.size() == spec_.receives.size());
    return hub_->Exchange(domain_, number_, ++turn_, spec_, sends, receives);
  }

 private:
  const std::shared_ptr<Hub> hub_;
  const int64_t domain_;
  const OpNumber number_;
  const RemoteSpec spec_;
  int64_t turn_ = 0;
};

class Loopback : public Transport {
 public:
  Loopback(std::shared_ptr<Hub> hub, int64_t domain) : hub_(std::move(hub)), domain_(domain) {}

  int64_t domain() const override { return domain_; }
  int64_t num_domains() const override { return hub_->num_domains(); }

  absl::StatusOr<std::vector<std::string>> AllGather(std::string_view what, std::string_view text) override {
    prepared_ = 0;
    return hub_->AllGather(domain_, asked_++, what, text);
  }

  absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
    MESHWORK_RETURN_IF_ERROR(hub_->status());
    return std::make_unique<LoopbackOp>(hub_, domain_, OpNumber(asked_, prepared_++), std::move(spec));
  }

  void Abort(absl::Status reason) override { hub_->Abort(std::move(reason)); }

 private:
  const std::shared_ptr<Hub> hub_;
  const int64_t domain_;
  int64_t asked_ = 0, prepared_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> MakeLoopback(int64_t num_domains, const LoopbackOptions& options) {
  MESHWORK_CHECK(num_domains >= 1);
  const auto hub = std::make_shared<Hub>(num_domains, options);
  std::vector<std::unique_ptr<Transport>> ends;
  for (int64_t d = 0; d < num_domains; ++d) ends.push_back(std::make_unique<Loopback>(hub, d));
  return ends;
}

}  // namespace meshwork
