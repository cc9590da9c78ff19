#include "meshwork/runtime/transport/gloo_link.h"

#ifdef MESHWORK_HAVE_GLOO
#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick(20), kGlance(1);
constexpr milliseconds kForever = std::chrono::hours(87600);  // until the watcher interrupts
constexpr uint64_t kByeSlot = ~uint64_t{0};
constexpr size_t kMaxReason = 1 << 16;

}  // namespace

NoSigpipe::NoSigpipe() {
  sigemptyset(&pipe_);
  sigaddset(&pipe_, SIGPIPE);
  sigset_t pending;
  sigpending(&pending);
  was_pending_ = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
}

NoSigpipe::~NoSigpipe() {
  const timespec at_once = {};
  if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

GlooLink::GlooLink(const Cluster& cluster, const GlooOptions& options, int64_t num_domains)
    : cluster_(cluster),
      options_(options),
      domain_(cluster.process()),
      num_domains_(num_domains),
      join_deadline_(options.join_deadline.count() == 0 ? options.deadline : options.join_deadline) {}

GlooLink::~GlooLink() {
  if (watcher_.joinable()) {
    {
      const std::lock_guard lock(state_);
      stop_ = true;
    }
    changed_.notify_all();
    watcher_.join();
    if (!is_aborted_) SayBye();
  }
  watch_.reset();
}

GlooLink::SteadyClock::time_point GlooLink::EndOf(milliseconds deadline) {
  const SteadyClock::time_point now = SteadyClock::now();
  return deadline < SteadyClock::time_point::max() - now ? now + deadline : SteadyClock::time_point::max();
}

std::string GlooLink::NameOf(int64_t process) const {
  const Task task = cluster_.TaskOf(process);
  const std::string& address = cluster_.AddressOf(task);
  return address.empty() ? task.ToString() : fmt::format("{} ({})", task.ToString(), address);
}

absl::Status GlooLink::status() {
  const std::lock_guard lock(state_);
  return aborted_;
}

void GlooLink::Abort(absl::Status reason) {
  MESHWORK_CHECK(!reason.ok());
  {
    const std::lock_guard lock(state_);
    if (!aborted_.ok()) return;
    must_tell_ = true;
    AbortLocked(std::move(reason));
  }
  changed_.notify_all();
}

absl::Status GlooLink::Fail(const absl::Status& reason) {
  if (!is_aborted_) Hear(FirstReason(reason));
  return status();
}

// ---- The reason of an abort, by the rendezvous.

std::string GlooLink::ReasonKey() const { return prefix_ + "abort"; }

absl::Status GlooLink::FirstReason(const absl::Status& reason) {
  if (rendezvous_ == nullptr) return reason;
  const absl::StatusOr<std::string> first =
      rendezvous_->SetFirst(ReasonKey(), EncodeReason(reason).substr(0, kMaxReason), kAnswer);
  if (first.ok()) return DecodeReason(*first);
  // The process that served it may have told its reason before it ended.
  std::unique_lock lock(state_);
  changed_.wait_for(lock, 2 * kTick, [&] { return !aborted_.ok(); });
  return reason;
}

void GlooLink::WatchReason() {
  must_watch_ = false;
  watch_ = rendezvous_->WatchKey(ReasonKey(), [this](const absl::StatusOr<std::string>& reason) {
    if (reason.ok()) Hear(DecodeReason(*reason));
    else must_watch_ = true;  // later, as the rendezvous is gone
  });
}

void GlooLink::Hear(absl::Status reason) {
  {
    const std::lock_guard lock(state_);
    if (aborted_.ok()) AbortLocked(std::move(reason));
  }
  changed_.notify_all();
}

void GlooLink::AbortLocked(absl::Status reason) {
  aborted_ = std::move(reason);
  is_aborted_ = true;
  InterruptLocked();
}

// ---- The watcher.

void GlooLink::Watch() {
  std::unique_lock lock(state_);
  SteadyClock::time_point tick = SteadyClock::now() + kTick;
  bool is_closed = false;
  while (true) {
    if (must_tell_) {
      must_tell_ = false;
      const absl::Status reason = aborted_;
      lock.unlock();
      FirstReason(reason).IgnoreError();
      lock.lock();
    }
    if (stop_) return;
    if (is_aborted_ && !is_closed) {
      is_closed = true;
      lock.unlock();
      Close();
      lock.lock();
    }
    const SteadyClock::time_point now = SteadyClock::now();
    if (waiting_ != nullptr && until_ <= now) InterruptLocked();
    if (tick <= now) {
      tick = now + kTick;
      lock.unlock();
      if (!is_aborted_) LookAtPeers();
      if (must_watch_) WatchReason();
      lock.lock();
    }
    if (must_tell_ || stop_ || (is_aborted_ && !is_closed)) continue;
    const bool is_timed = waiting_ != nullptr && !is_interrupted_;
    changed_.wait_until(lock, is_timed ? std::min(tick, until_) : tick);
  }
}

void GlooLink::InterruptLocked() {
  if (waiting_ == nullptr || is_interrupted_) return;
  is_interrupted_ = true;
  if (waiting_->is_receive) waiting_->buffer->abortWaitRecv();
  else waiting_->buffer->abortWaitSend();
}

void GlooLink::LookAtPeers() {
  int64_t lost = -1;
  {
    const std::lock_guard lock(presence_);
    for (size_t d = 0; d < peers_.size(); ++d) {
      Peer& peer = peers_[d];
      if (peer.bye == nullptr || peer.has_left || peer.is_lost) continue;
      try {
        peer.bye->abortWaitRecv();  // so that the wait only says whether the connection is broken
        peer.bye->waitRecv(nullptr, kForever);
      } catch (const std::exception&) {
        peer.is_lost = true;
        lost = static_cast<int64_t>(d);
      }
    }
  }
  if (lost >= 0) Fail(Broken("Gloo", lost)).IgnoreError();
}

void GlooLink::Close() {
  try {
    context_->closeConnections();
  } catch (const std::exception&) {
    return;
  }
}

// ---- How domains leave.

void GlooLink::AwaitByes() {
  peers_.resize(static_cast<size_t>(num_domains_));
  for (int64_t d = 0; d < num_domains_; ++d) {
    if (d == domain_) continue;
    Peer& peer = peers_[static_cast<size_t>(d)];
    peer.bye = context_->createUnboundBuffer(&peer.byte, 1);
    peer.bye->recv(static_cast<int>(d), kByeSlot);
  }
}

bool GlooLink::HasLeft(int64_t domain) {
  const std::lock_guard lock(presence_);
  Peer& peer = peers_[static_cast<size_t>(domain)];
  if (peer.has_left || peer.is_lost) return peer.has_left;
  try {
    peer.has_left = peer.bye->waitRecv(nullptr, kAnswer);
  } catch (const std::exception&) {
    peer.is_lost = true;
  }
  return peer.has_left;
}

void GlooLink::SayBye() {
  const NoSigpipe guard;
  std::byte byte{};
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> byes(peers_.size());
  for (size_t d = 0; d < peers_.size(); ++d) {
    if (peers_[d].bye == nullptr) continue;
    try {
      byes[d] = context_->createUnboundBuffer(&byte, 1);
      byes[d]->send(static_cast<int>(d), kByeSlot);
    } catch (const std::exception&) {
      byes[d].reset();  // it has left, or is dead
    }
  }
  for (const auto& bye : byes) {
    try {
      if (bye != nullptr) bye->waitSend(kAnswer);
    } catch (const std::exception&) {
      continue;
    }
  }
}

// ---- Exchanges.

class GlooLink::Exchange : public MessageExchange {
 public:
  Exchange(GlooLink& link, std::string where, uint64_t slot, std::vector<Message> sends,
           std::vector<Message> receives)
      : MessageExchange(std::move(where), std::move(sends), std::move(receives)), link_(link), slot_(slot) {
    for (const Message& receive : this->receives)
      parcels_.push_back({receive.domain, /*is_receive=*/true, nullptr, receive.bytes});
    for (const Message& send : this->sends)
      parcels_.push_back({send.domain, /*is_receive=*/false, nullptr, send.bytes});
  }

  absl::Status Start() override {
    for (size_t i = 0; i < receives.size(); ++i) parcels_[i].data = receives[i].data;
    for (size_t i = 0; i < sends.size(); ++i) parcels_[receives.size() + i].data = sends[i].data;
    return link_.Start(slot_, parcels_);
  }
  absl::Status Wait() override { return link_.Wait(where, parcels_); }
  absl::Status Run() override {
    MESHWORK_RETURN_IF_ERROR(Start());
    return Wait();
  }

 private:
  GlooLink& link_;
  const uint64_t slot_;
  std::vector<Parcel> parcels_;  // what is received, then what is sent
};

std::unique_ptr<MessageExchange> GlooLink::MakeExchange(std::string where, uint64_t slot,
                                                        const Link& /*speed*/, std::vector<Message> sends,
                                                        std::vector<Message> receives) {
  return std::make_unique<Exchange>(*this, std::move(where), slot, std::move(sends), std::move(receives));
}

absl::Status GlooLink::Start(uint64_t slot, std::vector<Parcel>& parcels) {
  if (is_aborted_) return status();
  const NoSigpipe guard;
  for (Parcel& parcel : parcels) Post(parcel, slot);
  return absl::OkStatus();
}

absl::Status GlooLink::Wait(std::string_view where, std::vector<Parcel>& parcels) {
  absl::Status status = AwaitAll(where, parcels);
  // From then on Gloo does not touch their memory.
  if (!status.ok())
    for (Parcel& parcel : parcels) parcel.buffer.reset();
  return status;
}

absl::Status GlooLink::AwaitAll(std::string_view where, std::vector<Parcel>& parcels) {
  if (is_aborted_) return status();
  const NoSigpipe guard;
  const SteadyClock::time_point end = EndOf(options_.deadline);
  for (Parcel& parcel : parcels) {
    const Waited waited = Await(parcel, end, /*soon=*/false);
    if (waited == Waited::kDone) continue;
    if (is_aborted_) return status();
    if (waited == Waited::kBroken) {
      if (!HasLeft(parcel.domain)) return Fail(Broken(where, parcel.domain));
      std::unique_lock lock(state_);
      changed_.wait_until(lock, end, [&] { return !aborted_.ok(); });
      if (!aborted_.ok()) return aborted_;
    }
    return Late(where, parcels);
  }
  return absl::OkStatus();
}

void GlooLink::Post(Parcel& parcel, uint64_t slot) {
  parcel.is_done = false;
  try {
    if (parcel.buffer == nullptr || parcel.buffer->ptr != parcel.data) {
      parcel.buffer.reset();
      parcel.buffer = context_->createUnboundBuffer(parcel.data, static_cast<size_t>(parcel.bytes));
    }
    const int other = static_cast<int>(parcel.domain);
    if (parcel.is_receive) parcel.buffer->recv(other, slot);
    else parcel.buffer->send(other, slot);
  } catch (const std::exception&) {
    parcel.buffer.reset();
  }
}

GlooLink::Waited GlooLink::Await(Parcel& parcel, SteadyClock::time_point end, bool soon) {
  if (parcel.buffer == nullptr) return Waited::kBroken;
  {
    const std::lock_guard lock(state_);
    if (!aborted_.ok()) return Waited::kInterrupted;
    waiting_ = &parcel;
    until_ = end;
    is_interrupted_ = false;
  }
  if (soon) changed_.notify_all();
  Waited waited = Waited::kBroken;
  try {
    parcel.is_done = parcel.is_receive ? parcel.buffer->waitRecv(nullptr, kForever)
                                       : parcel.buffer->waitSend(nullptr, kForever);
    waited = parcel.is_done ? Waited::kDone : Waited::kInterrupted;
  } catch (const std::exception&) {
    parcel.is_done = false;
  }
  const std::lock_guard lock(state_);
  waiting_ = nullptr;
  // The interrupt came too late, and would end this buffer's next wait.
  if (is_interrupted_ && parcel.is_done) parcel.buffer.reset();
  return waited;
}

absl::Status GlooLink::Late(std::string_view where, std::vector<Parcel>& parcels) {
  std::vector<int64_t> missing;
  for (Parcel& parcel : parcels) {
    if (parcel.is_done || Await(parcel, SteadyClock::now() + kGlance, /*soon=*/true) == Waited::kDone)
      continue;
    if (is_aborted_) return status();
    missing.push_back(parcel.domain);
  }
  if (missing.empty()) return absl::OkStatus();
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return Fail(LateError(where, missing, options_.deadline, domain_, [this](int64_t d) { return NameOf(d); }));
}

absl::Status GlooLink::Broken(std::string_view where, int64_t domain) const {
  return absl::UnavailableError(
      fmt::format("{}: the connection to domain {}, {}, is broken; look at what that process says.", where,
                  domain, NameOf(domain)));
}

}  // namespace meshwork

#endif
