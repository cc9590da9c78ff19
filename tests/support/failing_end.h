// An end of a transport that fails at a chosen moment, as if its link were cut there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

// Each Start and each Wait of an operation is a moment; they are counted from 0.
class FailingEnd : public Transport {
 public:
  explicit FailingEnd(Transport& end) : end_(end) {
    set_speed(end.speed());
    set_deadline(end.deadline());
  }

  // Fails at the `moment`th moment from now on: instead of the call, or, with `late`, after the call, and after late().
  void FailAt(int64_t moment, std::function<void()> late = nullptr) {
    moment_ = 0;
    fails_at_ = moment;
    late_ = std::move(late);
  }
  // Moments since FailAt.
  int64_t moments() const { return moment_; }

  int64_t domain() const override { return end_.domain(); }
  int64_t num_domains() const override { return end_.num_domains(); }
  absl::StatusOr<std::vector<std::string>> ExchangeTexts(std::string_view what,
                                                         std::string_view text) override {
    return end_.ExchangeTexts(what, text);
  }
  absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
    absl::StatusOr<std::unique_ptr<RemoteOp>> op = end_.Prepare(std::move(spec));
    if (!op.ok()) return op.status();
    return std::make_unique<Op>(*this, *std::move(op));
  }
  void Abort(absl::Status reason) override { end_.Abort(std::move(reason)); }
  absl::Status aborted() override { return end_.aborted(); }

 private:
  class Op : public RemoteOp {
   public:
    Op(FailingEnd& end, std::unique_ptr<RemoteOp> op) : end_(end), op_(std::move(op)) {}
    absl::Status Start(std::span<const std::byte* const> sends,
                       std::span<std::byte* const> receives) override {
      return end_.Pass([&] { return op_->Start(sends, receives); });
    }
    absl::Status Wait() override {
      return end_.Pass([&] { return op_->Wait(); });
    }

   private:
    FailingEnd& end_;
    const std::unique_ptr<RemoteOp> op_;
  };

  template <typename F>
  absl::Status Pass(F&& call) {
    if (moment_++ != fails_at_) return call();
    if (late_ != nullptr) {
      const absl::Status status = call();
      if (!status.ok()) return status;
      late_();
    }
    absl::Status cut = absl::UnavailableError("the link is cut");
    end_.Abort(cut);
    return cut;
  }

  Transport& end_;
  int64_t moment_ = 0, fails_at_ = -1;
  std::function<void()> late_;
};

}  // namespace meshwork
