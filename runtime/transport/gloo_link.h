// GlooLink: the connections of one domain to all others. The transport over Gloo and its operations share one. Programs
// use gloo.h; this header is for its implementation.
//
//   auto link = std::make_shared<GlooLink>(cluster, options, /*num_domains=*/2);
//   MESHWORK_RETURN_IF_ERROR(link->Join());                             // gloo_join.cc
//   auto swap = link->MakeExchange("Swap", slot, speed, {{1, data, 24}}, {{1, into, 24}});
//   MESHWORK_RETURN_IF_ERROR(swap->Run());                              // gloo_link.cc, as all else
//
// Gloo closes all connections when a wait ends at its own deadline, and then domains could not tell an abort from a
// death. So waits have no deadline for Gloo: the watcher, a thread, interrupts them. It also sees broken connections:
// from each peer a message is awaited that only comes when the peer leaves.
//
// Join and exchanges may be called by one thread at a time; status, Abort and Fail by any thread at any time.
// Builds without Gloo have this header, and no functions of it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/runtime/transport/address.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/runtime/transport/messages.h"
#include "meshwork/runtime/transport/rendezvous.h"

namespace gloo::rendezvous {
class Context;
}
namespace gloo::transport {
class UnboundBuffer;
}

namespace meshwork {

// A message as Gloo has it.
struct Parcel {
  int64_t domain;
  bool is_receive;
  std::byte* data;  // not written where it is sent
  int64_t bytes;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  bool is_done = false;
};

// While one lives, this thread, and those that it starts, get no SIGPIPE: Gloo writes to connections that may be
// closed.
class NoSigpipe {
 public:
  NoSigpipe();
  ~NoSigpipe();
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};

class GlooLink : public MessageLink {
 public:
  // Each of the first `num_domains` processes has a domain.
  GlooLink(const Cluster& cluster, const GlooOptions& options, int64_t num_domains);
  // Says bye to the other domains, unless the link is aborted.
  ~GlooLink() override;

  std::string_view name() const override { return "gloo"; }
  int64_t domain() const override { return domain_; }
  int64_t num_domains() const override { return num_domains_; }

  // The processes meet; those that have a domain are then connected. Called first, once. Errors: those of MakeGloo.
  absl::Status Join();

  absl::Status status() override;
  void Abort(absl::Status reason) override;
  // Returns the first reason of all domains.
  absl::Status Fail(const absl::Status& reason) override;
  // Errors of exchanges, which abort the link: a domain that does not come within the deadline, a connection that
  // breaks; the reason of an abort.
  std::unique_ptr<MessageExchange> MakeExchange(std::string where, uint64_t slot, const Link& speed,
                                                std::vector<Message> sends,
                                                std::vector<Message> receives) override;

 private:
  using SteadyClock = std::chrono::steady_clock;
  // How long to wait for the rendezvous and, at the end, for other domains.
  static constexpr std::chrono::milliseconds kAnswer = std::chrono::seconds(1);

  enum class Waited { kDone, kInterrupted, kBroken };

  struct Peer {
    std::byte byte{};
    std::unique_ptr<gloo::transport::UnboundBuffer> bye;
    bool has_left = false, is_lost = false;
  };

  static SteadyClock::time_point EndOf(std::chrono::milliseconds deadline);
  // "worker 1 (host-b:4444)".
  std::string NameOf(int64_t process) const;

  // ---- Meeting: gloo_join.cc.

  // Connects to the rendezvous; process 0 starts it if no other is given.
  absl::Status FindRendezvous();
  // Says that this process is there, and what it expects of the others.
  absl::Status CheckIn(SteadyClock::time_point end);
  std::string HelloKey(int64_t process) const;
  // Waits until all processes have checked in.
  absl::Status MeetAll(SteadyClock::time_point end);
  // Errors: what processes say differs; processes have not checked in; the processes `missing` did not come.
  absl::Status Differ();
  absl::Status Missing();
  absl::Status DidNotCome(const std::vector<std::string>& missing) const;
  // The address that others reach this process at.
  absl::StatusOr<SocketAddress> OwnAddress() const;
  // Connects this domain with all others, and starts the watcher.
  absl::Status ConnectPeers(SteadyClock::time_point end);

  // ---- The reason of an abort, by the rendezvous.

  std::string ReasonKey() const;
  // Tells the others `reason`, unless another domain was first. Returns the first reason.
  absl::Status FirstReason(const absl::Status& reason);
  void WatchReason();
  // Aborts for a reason that the others know. The first one stays.
  void Hear(absl::Status reason);
  void AbortLocked(absl::Status reason);

  // ---- The watcher.

  void Watch();
  // Ends the wait that is under way, if there is one.
  void InterruptLocked();
  // Aborts if a connection has broken before the peer said bye.
  void LookAtPeers();
  void Close();

  // ---- How domains leave.

  // Receives the message of each peer that only comes when the peer leaves.
  void AwaitByes();
  // Whether a domain whose connection is closed has said so before.
  bool HasLeft(int64_t domain);
  void SayBye();

  // ---- Exchanges.

  class Exchange;
  // Gloo's threads move the parcels on between Start and Wait; after an error of Start none is under way.
  absl::Status Start(uint64_t slot, std::vector<Parcel>& parcels);
  absl::Status Wait(std::string_view where, std::vector<Parcel>& parcels);
  absl::Status AwaitAll(std::string_view where, std::vector<Parcel>& parcels);
  // Begins to send or receive a parcel; without a buffer if the connection is broken.
  void Post(Parcel& parcel, uint64_t slot);
  // `soon`: `end` is before the watcher's next tick.
  Waited Await(Parcel& parcel, SteadyClock::time_point end, bool soon);
  // What to return at the deadline: OK if everything has come nonetheless, else an error that aborts the link.
  absl::Status Late(std::string_view where, std::vector<Parcel>& parcels);
  absl::Status Broken(std::string_view where, int64_t domain) const;

  const Cluster cluster_;
  const GlooOptions options_;
  const int64_t domain_, num_domains_;
  const std::chrono::milliseconds join_deadline_;
  std::string prefix_, hello_;  // of keys in the rendezvous; what this process says there
  SocketAddress rendezvous_address_;
  std::shared_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<Rendezvous::Watch> watch_;
  std::atomic<bool> must_watch_{false};
  std::shared_ptr<gloo::rendezvous::Context> context_;  // null for one domain
  std::unique_ptr<ClosedInChildren> connections_;       // of the context

  std::mutex state_;
  std::condition_variable changed_;
  std::atomic<bool> is_aborted_{false};
  absl::Status aborted_;
  bool must_tell_ = false, stop_ = false;
  Parcel* waiting_ = nullptr;
  SteadyClock::time_point until_;
  bool is_interrupted_ = false;

  std::mutex presence_;  // never locked with state_
  std::vector<Peer> peers_;
  std::thread watcher_;
};

}  // namespace meshwork
