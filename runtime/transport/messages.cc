#include "meshwork/runtime/transport/messages.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "meshwork/base/fork.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr std::string_view kTransport = "Transport";

// Slots of texts; those of operations are larger.
constexpr uint64_t kShortSlot = 0, kRestSlot = 1;

std::byte* BytesOf(void* data) { return static_cast<std::byte*>(data); }

class MessageOp : public RemoteOp {
 public:
  MessageOp(std::shared_ptr<MessageLink> link, uint64_t slot, const Link& speed, const RemoteSpec& spec)
      : link_(std::move(link)),
        slot_(slot),
        speed_(speed),
        exchange_(link_->MakeExchange(spec.where, slot, speed, Messages(spec.sends), Messages(spec.receives))
                      .release()) {}
  ~MessageOp() override { Wait().IgnoreError(); }

  absl::Status Start(std::span<const std::byte* const> sends, std::span<std::byte* const> receives) override {
    MESHWORK_RETURN_IF_ERROR(made_.Check(kTransport));
    MESHWORK_RETURN_IF_ERROR(Take(sends, receives));
    is_under_way_ = true;
    absl::Status status = exchange_->Start();
    is_under_way_ = status.ok();
    return status;
  }

  absl::Status Wait() override {
    if (!is_under_way_) return absl::OkStatus();
    MESHWORK_RETURN_IF_ERROR(made_.Check(kTransport));
    absl::Status status = exchange_->Wait();
    is_under_way_ = false;
    return status;
  }

  absl::Status Run(std::span<const std::byte* const> sends, std::span<std::byte* const> receives) override {
    MESHWORK_RETURN_IF_ERROR(made_.Check(kTransport));
    MESHWORK_RETURN_IF_ERROR(Take(sends, receives));
    return exchange_->Run();
  }

 private:
  static std::vector<Message> Messages(const std::vector<RemotePart>& parts) {
    std::vector<Message> messages;
    for (const RemotePart& part : parts) messages.push_back({part.domain, nullptr, part.bytes});
    return messages;
  }

  absl::Status Take(std::span<const std::byte* const> sends, std::span<std::byte* const> receives) {
    MESHWORK_CHECK(!is_under_way_ && sends.size() == exchange_->sends.size() &&
                   receives.size() == exchange_->receives.size());
    if (!is_checked_) {
      MESHWORK_RETURN_IF_ERROR(CheckSizes());
      is_checked_ = true;
    }
    for (size_t i = 0; i < sends.size(); ++i) exchange_->sends[i].data = const_cast<std::byte*>(sends[i]);
    for (size_t i = 0; i < receives.size(); ++i) exchange_->receives[i].data = receives[i];
    return absl::OkStatus();
  }

  // Called before the first run, because MPI does not say how long a message was that did not fit, and Gloo ends the
  // process.
  absl::Status CheckSizes() {
    const std::vector<Message>& expected = exchange_->receives;
    std::vector<int64_t> sent, received(expected.size());
    for (const Message& message : exchange_->sends) sent.push_back(message.bytes);
    std::vector<Message> sends, receives;
    for (size_t i = 0; i < sent.size(); ++i)
      sends.push_back({exchange_->sends[i].domain, BytesOf(&sent[i]), sizeof(int64_t)});
    for (size_t i = 0; i < received.size(); ++i)
      receives.push_back({expected[i].domain, BytesOf(&received[i]), sizeof(int64_t)});
    MESHWORK_RETURN_IF_ERROR(
        link_->MakeExchange(exchange_->where, slot_, speed_, std::move(sends), std::move(receives))->Run());
    for (size_t i = 0; i < received.size(); ++i) {
      if (received[i] == expected[i].bytes) continue;
      return link_->Fail(
          SizeError(exchange_->where, {expected[i].domain, received[i]}, link_->domain(), expected[i].bytes));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<MessageLink> link_;
  const uint64_t slot_;
  const Link speed_;
  const UnlessForked<MessageExchange> exchange_;
  const ForkMark made_;
  bool is_checked_ = false, is_under_way_ = false;
};

// A text's size and its beginning. Most texts are no longer, and need one message to each domain.
struct ShortText {
  int64_t bytes = 0;
  std::array<char, 248> begin = {};
};
constexpr int64_t kShortBytes = std::tuple_size_v<decltype(ShortText::begin)>;

int64_t RestOf(int64_t bytes) { return std::max<int64_t>(bytes - kShortBytes, 0); }

class MessageTransport : public Transport {
 public:
  MessageTransport(std::shared_ptr<MessageLink> link, const Link& speed, std::chrono::milliseconds deadline)
      : link_(std::move(link)), texts_(static_cast<size_t>(link_->num_domains())) {
    set_speed(speed);
    set_deadline(deadline);
  }

  int64_t domain() const override { return link_->domain(); }
  int64_t num_domains() const override { return link_->num_domains(); }
  std::string_view name() const override { return link_->name(); }

  absl::StatusOr<std::vector<std::string>> ExchangeTexts(std::string_view what,
                                                         std::string_view text) override {
    MESHWORK_RETURN_IF_ERROR(made_.Check(kTransport));
    ++asked_;
    prepared_ = kRestSlot;
    const std::string where = fmt::format("Agree on {}", what);
    const auto mine = static_cast<size_t>(domain());
    texts_[mine].bytes = std::ssize(text);
    text.copy(texts_[mine].begin.data(), kShortBytes);
    MESHWORK_RETURN_IF_ERROR(GatherShortTexts(where));
    std::vector<std::string> texts(texts_.size());
    for (size_t d = 0; d < texts.size(); ++d) {
      texts[d].assign(texts_[d].begin.data(),
                      static_cast<size_t>(std::min<int64_t>(texts_[d].bytes, kShortBytes)));
      texts[d].resize(static_cast<size_t>(texts_[d].bytes));
    }
    texts[mine] = text;
    MESHWORK_RETURN_IF_ERROR(GatherRests(where, texts));
    return texts;
  }

  absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
    MESHWORK_RETURN_IF_ERROR(made_.Check(kTransport));
    MESHWORK_RETURN_IF_ERROR(link_->status());
    return std::make_unique<MessageOp>(link_, asked_ << 32 | ++prepared_, speed(), spec);
  }

  void Abort(absl::Status reason) override {
    if (made_.is_here()) link_->Abort(std::move(reason));
  }
  absl::Status aborted() override { return made_.is_here() ? link_->status() : absl::OkStatus(); }

 private:
  absl::Status GatherShortTexts(const std::string& where) {
    if (shorts_ == nullptr || shorts_->where != where) {
      std::vector<Message> sends, receives;
      for (int64_t other = 0; other < num_domains(); ++other) {
        if (other == domain()) continue;
        sends.push_back({other, BytesOf(&texts_[static_cast<size_t>(domain())]), sizeof(ShortText)});
        receives.push_back({other, BytesOf(&texts_[static_cast<size_t>(other)]), sizeof(ShortText)});
      }
      shorts_.reset(
          link_->MakeExchange(where, kShortSlot, speed(), std::move(sends), std::move(receives)).release());
    }
    return shorts_->Run();
  }

  // Exchanges the parts of the texts that did not fit into the first message.
  absl::Status GatherRests(const std::string& where, std::vector<std::string>& texts) {
    const auto mine = static_cast<size_t>(domain());
    std::vector<Message> sends, receives;
    for (size_t d = 0; d < texts.size(); ++d) {
      if (d == mine) continue;
      const auto other = static_cast<int64_t>(d);
      if (const int64_t rest = RestOf(texts_[mine].bytes); rest > 0)
        sends.push_back({other, BytesOf(texts[mine].data() + kShortBytes), rest});
      if (const int64_t rest = RestOf(texts_[d].bytes); rest > 0)
        receives.push_back({other, BytesOf(texts[d].data() + kShortBytes), rest});
    }
    if (sends.empty() && receives.empty()) return absl::OkStatus();
    return link_->MakeExchange(where, kRestSlot, speed(), std::move(sends), std::move(receives))->Run();
  }

  const std::shared_ptr<MessageLink> link_;
  const ForkMark made_;
  std::vector<ShortText> texts_;          // by domain
  UnlessForked<MessageExchange> shorts_;  // of the last question
  // The number of AllGathers, and a number for each operation prepared since the last one: together an operation's
  // slot.
  uint64_t asked_ = 0, prepared_ = kRestSlot;
};

}  // namespace

std::unique_ptr<Transport> MakeMessageTransport(std::shared_ptr<MessageLink> link, const Link& speed,
                                                std::chrono::milliseconds deadline) {
  return std::make_unique<MessageTransport>(std::move(link), speed, deadline);
}

}  // namespace meshwork
