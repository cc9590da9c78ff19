// A Transport carries what crosses between the domains of a program (mesh/placement.h): between processes,
// hosts, or memories of one process.
//
//   std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2);         // runtime/transport/loopback.h
//
//   // in each domain, with its own end:
//   MESHWORK_RETURN_IF_ERROR(Agree(*end, "the program", Fingerprint(program.body)));   // who differs is named
//   MESHWORK_ASSIGN_OR_RETURN(auto sum, end->Prepare({.where = "all_reduce (model.cc:41)",
//                                            .sends = …, .receives = …}));
//   MESHWORK_RETURN_IF_ERROR(sum->Run(where lies what is sent, where goes what is received));   // every step
//
// A remote operation moves bytes between domains, and computes nothing: what is reduced is reduced by who
// receives it, in the order of the domains, so that the sum does not depend on who was first.
//
// The domains of a program call AllGather and Prepare in the same order, and run operations in the same
// order, each as often: those in a loop or a branch follow a predicate that is the same in all of them. After
// an AllGather all are as one again, even where one of them failed to prepare what others did. A domain that
// sends waits for nobody but the receivers of what it sends, so domains that do this never dead-lock. One
// that fails, or that waits in vain, aborts all others: nobody goes on with a step that somebody did not
// make.
//
// Addresses are of host memory; a backend whose memory is another one stages what crosses.
//
// The end of a domain is used by one thread at a time; Abort may be called by any thread at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwork {

// What goes to another domain, or comes from it, in one operation.
struct RemotePart {
  int64_t domain = 0;
  int64_t bytes = 0;
};

// One operation as one domain sees it. Law: domain a sends b as many bytes as b receives from a.
struct RemoteSpec {
  std::string where;  // "all_reduce (model.cc:41)", for errors
  // Each ascending by domain, which is another one than this; a domain that is not named has no part.
  std::vector<RemotePart> sends, receives;
};

// An operation that was prepared.
class RemoteOp {
 public:
  virtual ~RemoteOp() = default;
  // Sends and receives, once. sends[i] and receives[i]: where spec.sends[i] and spec.receives[i]
  // lie, all apart from each other. On return everything is received, and nothing that was sent is read any
  // more. Errors, with which the whole transport is aborted: a domain that does not come within the deadline,
  // or sends another number of bytes; the reason of an abort.
  virtual absl::Status Run(std::span<const std::byte* const> sends, std::span<std::byte* const> receives) = 0;
};

// One domain's end of it.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int64_t domain() const = 0;
  virtual int64_t num_domains() const = 0;

  // What every domain says of `what`, by domain; all of them ask. It is short: a transport need not be fast
  // at it. Errors: one does not come within the deadline, with which the transport is aborted; the reason of
  // an abort.
  virtual absl::StatusOr<std::vector<std::string>> AllGather(std::string_view what,
                                                             std::string_view text) = 0;

  // The operation must not outlive the transport. Errors: the reason of an abort. REQUIRES: parts are of
  // other domains.
  virtual absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) = 0;

  // Whatever waits here or in another domain, and whatever is asked for from now on, fails with `reason`. The
  // first reason stays. REQUIRES: !reason.ok().
  virtual void Abort(absl::Status reason) = 0;
};

// Whether all domains can go on, and say the same of `what`; all of them ask. `mine`: what this one says, or
// why it cannot go on. So all go on or none does, and the transport is as it was. Errors, in all of them:
// mine; another one's, with who it is; who differs, and in what. Those of AllGather.
absl::Status Agree(Transport& transport, std::string_view what, const absl::StatusOr<std::string>& mine);

// "domain 2", "domains 0, 1", for messages.
std::string NamesOf(const std::vector<int64_t>& domains);

}  // namespace meshwork
