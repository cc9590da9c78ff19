// A Transport carries data between the domains of a program (mesh/placement.h): between processes, hosts, or
// memories of one process.
//
//   std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2);         // runtime/transport/loopback.h
//
//   // In each domain, with its own end:
//   MESHWORK_RETURN_IF_ERROR(Agree(*end, "the program", Fingerprint(program.body)));   // or who differs
//   MESHWORK_ASSIGN_OR_RETURN(auto sum, end->Prepare({.where = "all_reduce (model.cc:41)",
//                                                     .sends = …, .receives = …}));
//   MESHWORK_RETURN_IF_ERROR(sum->Start(sent, received));   // addresses; in every step
//   …compute what does not need it…
//   MESHWORK_RETURN_IF_ERROR(sum->Wait());
//
// A remote operation moves bytes between domains, and computes nothing: receivers make the reductions, in the
// order of the domains, so that a sum does not depend on who was first.
//
// The domains of a program call AllGather and Prepare in the same order, and start the same operations in the
// same order, equally often: operations in a loop or a branch follow a predicate that is the same in all
// domains. Several operations may be under way at a time, and may be waited for in any order; data moves while
// the domain computes. After an AllGather all domains are in step again, even if one of them failed to prepare
// an operation that others prepared. A domain that sends waits only for the receivers of its data, so domains
// that follow these rules never deadlock. A domain that fails, or that waits in vain, aborts all others: no
// domain goes on with a step that another domain did not make.
//
// Addresses are of host memory; a backend with another memory stages the data.
//
// The end of a domain may be used by one thread at a time; Abort may be called by any thread at any time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// The bytes that go to another domain, or come from it, in one operation.
struct RemotePart {
  int64_t domain = 0;
  int64_t bytes = 0;
};

// One operation as one domain sees it. Law: domain a sends b as many bytes as b expects from a.
struct RemoteSpec {
  std::string where;  // "all_reduce (model.cc:41)", for errors
  // Each ascending by domain, without this domain; a domain that is not listed takes no part.
  std::vector<RemotePart> sends, receives;
};

// An operation that was prepared.
class RemoteOp {
 public:
  // Waits for what was started.
  virtual ~RemoteOp() = default;
  // Begins to send and to receive, once. sends[i] and receives[i]: the addresses for spec.sends[i] and
  // spec.receives[i]; none overlap. Until Wait has returned, the memory that is sent must not be written, and the
  // memory that receives must not be touched. The first Start of an operation may wait for other domains to start it,
  // too. Errors: those of Wait. After an error nothing is under way. REQUIRES: every Start before was waited for.
  virtual absl::Status Start(std::span<const std::byte* const> sends,
                             std::span<std::byte* const> receives) = 0;
  // On return everything has been received, and neither the sent nor the received memory is used any more. OK if
  // nothing was started. Errors, which abort the whole transport: a domain that does not come within the deadline, or
  // sends another number of bytes; the reason of an abort.
  virtual absl::Status Wait() = 0;

  // Start, then Wait.
  virtual absl::Status Run(std::span<const std::byte* const> sends, std::span<std::byte* const> receives);
};

// One domain's end of a transport.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int64_t domain() const = 0;
  virtual int64_t num_domains() const = 0;
  // The name of the transport, in messages: "gloo".
  virtual std::string_view name() const { return "another transport"; }

  // The speed of messages between two domains, the same in all domains. It is an assumption of the implementation until
  // it is measured (runtime/transport/measure.h). By default messages take no time.
  const Link& speed() const { return speed_; }
  void set_speed(const Link& speed) { speed_ = speed; }
  // The bytes that the link can carry in the time of its latency. Cutting data into more messages pays if it has more
  // bytes than this.
  int64_t latency_bytes() const {
    constexpr double kMost = int64_t{1} << 40;
    return static_cast<int64_t>(std::min(speed_.latency * speed_.bandwidth, kMost));
  }

  // How long a domain waits for the others in one operation; for callers that reach them by other means than the
  // transport.
  std::chrono::milliseconds deadline() const { return deadline_; }
  void set_deadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }

  // The seconds that this domain has spent waiting for others, and not computing, since it has this end. 0 if they are
  // not counted (runtime/transport/timed.h).
  virtual double seconds_waited() const { return 0; }

  // Exchanges a short text about `what`, one line: returns the texts of all domains, by domain. All domains must call
  // it with the same `what`; it need not be fast. Errors: a domain does not come within the deadline, which aborts the
  // transport; the reason of an abort; domains call it about different things, which leaves the transport as it was.
  absl::StatusOr<std::vector<std::string>> AllGather(std::string_view what, std::string_view text);
  // For AllGather, and for transports that wrap another one: exchanges texts and compares nothing. `what` is for
  // messages.
  virtual absl::StatusOr<std::vector<std::string>> ExchangeTexts(std::string_view what,
                                                                 std::string_view text) = 0;

  // Prepares an operation, which must not outlive the transport. Errors: the reason of an abort. REQUIRES:
  // parts are of other domains.
  virtual absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) = 0;

  // Every call that waits, here or in another domain, and every later call fails with `reason`. The first
  // reason stays. REQUIRES: !reason.ok().
  virtual void Abort(absl::Status reason) = 0;
  // The reason of an abort, as soon as this domain has heard of it; OK before. For callers that wait for others by
  // other means than the transport. Any thread may call it.
  virtual absl::Status aborted() { return absl::OkStatus(); }

 private:
  Link speed_;
  std::chrono::milliseconds deadline_ = std::chrono::minutes(10);
};

// Whether all domains can go on and agree on `what`; all domains must call it. `mine`: this domain's text, or
// why it cannot go on. So all domains go on or none does; the transport can be used in either case. Errors,
// in all domains: the error in `mine`; another domain's error, with the domain's name; which domains differ,
// and in what; those of AllGather.
// `text`, if given: what `mine` stands for, such as a program for its fingerprint; where domains differ, the
// first line in which they do is named.
absl::Status Agree(Transport& transport, std::string_view what, const absl::StatusOr<std::string>& mine,
                   const std::function<std::string()>& text = nullptr);

// "domain 2", "domains 0, 1", for messages.
std::string NamesOf(const std::vector<int64_t>& domains);

// ---- What implementations say.

// The reason of an abort, as one domain tells it to another. Law: DecodeReason(EncodeReason(reason)) == reason.
// REQUIRES: !reason.ok().
std::string EncodeReason(const absl::Status& reason);
absl::Status DecodeReason(std::string_view text);

// `missing` did not come to the operation `where` in time. `waits`: the domain that says so. `name`, if given, says
// more of a domain: "worker 1 (host-b:4444)".
absl::Status LateError(std::string_view where, const std::vector<int64_t>& missing,
                       std::chrono::milliseconds deadline, int64_t waits,
                       const std::function<std::string(int64_t domain)>& name = nullptr);
// The error that another domain sends another number of bytes than `to` expects from it.
absl::Status SizeError(std::string_view where, const RemotePart& sent, int64_t to, int64_t expected);

}  // namespace meshwork
