// A transport made of messages: the common part of the transports over MPI and Gloo. Programs use mpi.h and gloo.h;
// this header is for their implementations.
//
//   class MpiLink : public MessageLink { … };                       // how messages move
//   return MakeMessageTransport(std::make_shared<MpiLink>(…), {.bandwidth = 2e9, .latency = 16e-6}, deadline);
//
// Thread safety: one thread at a time calls MakeExchange and the exchanges; Abort may be called by any thread at any
// time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

// A message to another domain, or from it.
struct Message {
  int64_t domain;
  std::byte* data;  // not written where it is sent
  int64_t bytes;
};

// Messages that are sent and received together, again and again.
class MessageExchange {
 public:
  MessageExchange(std::string where, std::vector<Message> sends, std::vector<Message> receives)
      : where(std::move(where)), sends(std::move(sends)), receives(std::move(receives)) {}
  virtual ~MessageExchange() = default;
  MessageExchange(const MessageExchange&) = delete;
  MessageExchange& operator=(const MessageExchange&) = delete;

  // As RemoteOp's: Wait is called once after each Start that succeeded.
  virtual absl::Status Start() = 0;
  virtual absl::Status Wait() = 0;
  virtual absl::Status Run() = 0;

  const std::string where;               // for errors
  std::vector<Message> sends, receives;  // whose addresses change between runs
};

// The connections of one domain to all others.
class MessageLink {
 public:
  virtual ~MessageLink() = default;
  virtual std::string_view name() const = 0;  // Transport's
  virtual int64_t domain() const = 0;
  virtual int64_t num_domains() const = 0;
  // The reason of an abort, if there was one.
  virtual absl::Status status() = 0;
  // As Transport::Abort.
  virtual void Abort(absl::Status reason) = 0;
  // Aborts for a reason that this domain has found. Returns the first reason that it knows of.
  virtual absl::Status Fail(const absl::Status& reason) = 0;
  // `slot`: messages of exchanges with different slots are never taken for each other, where the engine can tell them
  // apart. `speed`: Transport::speed, the same in all domains. The exchange must not outlive the link.
  virtual std::unique_ptr<MessageExchange> MakeExchange(std::string where, uint64_t slot, const Link& speed,
                                                        std::vector<Message> sends,
                                                        std::vector<Message> receives) = 0;
};

// In the child of a fork its calls fail, and neither the link nor its exchanges are touched; the child must not delete
// the link either (DeleteUnlessForked, base/fork.h). `speed`: Transport::speed until it is measured.
std::unique_ptr<Transport> MakeMessageTransport(std::shared_ptr<MessageLink> link, const Link& speed,
                                                std::chrono::milliseconds deadline);

}  // namespace meshwork
