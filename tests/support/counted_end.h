// A transport that counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

// A transport's end, the bytes that its operations have sent, and how many texts it has exchanged.
class CountedEnd : public Transport {
 public:
  explicit CountedEnd(Transport& end) : end_(end) {
    set_speed(end.speed());
    set_deadline(end.deadline());
  }
  int64_t bytes() const { return bytes_; }
  int64_t texts() const { return texts_; }

  int64_t domain() const override { return end_.domain(); }
  int64_t num_domains() const override { return end_.num_domains(); }
  absl::StatusOr<std::vector<std::string>> ExchangeTexts(std::string_view what,
                                                         std::string_view text) override {
    ++texts_;
    return end_.ExchangeTexts(what, text);
  }
  absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
    int64_t bytes = 0;
    for (const RemotePart& part : spec.sends) bytes += part.bytes;
    absl::StatusOr<std::unique_ptr<RemoteOp>> op = end_.Prepare(std::move(spec));
    if (!op.ok()) return op.status();
    return std::make_unique<CountedOp>(*std::move(op), bytes, bytes_);
  }
  void Abort(absl::Status reason) override { end_.Abort(std::move(reason)); }
  absl::Status aborted() override { return end_.aborted(); }

 private:
  class CountedOp : public RemoteOp {
   public:
    CountedOp(std::unique_ptr<RemoteOp> op, int64_t bytes, int64_t& total)
        : op_(std::move(op)), bytes_(bytes), total_(total) {}
    absl::Status Start(std::span<const std::byte* const> sends,
                       std::span<std::byte* const> receives) override {
      total_ += bytes_;
      return op_->Start(sends, receives);
    }
    absl::Status Wait() override { return op_->Wait(); }

   private:
    const std::unique_ptr<RemoteOp> op_;
    const int64_t bytes_;
    int64_t& total_;
  };

  Transport& end_;
  int64_t bytes_ = 0, texts_ = 0;
};

}  // namespace meshwork
