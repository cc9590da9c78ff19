#include "meshwork/runtime/transport/timed.h"

#include <chrono>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;
// The time that the thread which uses the end has waited. It is shared, because an operation may outlive the object of
// the transport.
using Waited = std::shared_ptr<Clock::duration>;

template <typename F>
auto Counted(Clock::duration& waited, F&& call) {
  const Clock::time_point start = Clock::now();
  auto result = call();
  waited += Clock::now() - start;
  return result;
}

class TimedOp : public RemoteOp {
 public:
  TimedOp(std::unique_ptr<RemoteOp> op, Waited waited) : op_(std::move(op)), waited_(std::move(waited)) {}

  absl::Status Start(std::span<const std::byte* const> sends, std::span<std::byte* const> receives) override {
    return Counted(*waited_, [&] { return op_->Start(sends, receives); });
  }
  absl::Status Wait() override {
    return Counted(*waited_, [&] { return op_->Wait(); });
  }
  absl::Status Run(std::span<const std::byte* const> sends, std::span<std::byte* const> receives) override {
    return Counted(*waited_, [&] { return op_->Run(sends, receives); });
  }

 private:
  const std::unique_ptr<RemoteOp> op_;
  const Waited waited_;
};

class TimedTransport : public Transport {
 public:
  explicit TimedTransport(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {
    set_speed(transport_->speed());
    set_deadline(transport_->deadline());
  }

  int64_t domain() const override { return transport_->domain(); }
  int64_t num_domains() const override { return transport_->num_domains(); }
  std::string_view name() const override { return transport_->name(); }
  double seconds_waited() const override { return std::chrono::duration<double>(*waited_).count(); }

  absl::StatusOr<std::vector<std::string>> ExchangeTexts(std::string_view what,
                                                         std::string_view text) override {
    return Counted(*waited_, [&] { return transport_->ExchangeTexts(what, text); });
  }

  absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
    MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<RemoteOp> op, transport_->Prepare(std::move(spec)));
    return std::make_unique<TimedOp>(std::move(op), waited_);
  }

  void Abort(absl::Status reason) override { transport_->Abort(std::move(reason)); }
  absl::Status aborted() override { return transport_->aborted(); }

 private:
  const std::unique_ptr<Transport> transport_;
  const Waited waited_ = std::make_shared<Clock::duration>(0);
};

}  // namespace

std::unique_ptr<Transport> MakeTimed(std::unique_ptr<Transport> transport) {
  MESHWORK_CHECK(transport != nullptr);
  return std::make_unique<TimedTransport>(std::move(transport));
}

}  // namespace meshwork
