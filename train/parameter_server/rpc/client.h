// RpcClient: makes calls of an RpcServer (server.h).
//
//   MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<RpcClient> client, RpcClient::Create("Worker", "host-b:4444", options));
//   MESHWORK_ASSIGN_OR_RETURN(const RpcMessage answer, client->Call({.call = "Ping"}));
//
// Errors of calls name the server, the call and the time. If the server, or the network to it, is switched off during a
// call, that is noticed within ten seconds.
//
// Thread-safe. In the child of a fork that came after a client was made, its functions fail.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/train/parameter_server/rpc/message.h"
#include "meshwork/train/parameter_server/rpc/options.h"

namespace meshwork {

class RpcClient {
 public:
  struct Attempt {
    absl::StatusOr<RpcMessage> answer;
    bool is_lost =
        false;  // whether the server is away, or the connection broke: it may have done what was asked, or not
  };

  // Waits for the second answer of a call (RpcMessage::then). It is asked for once: it fails where Call would try
  // again. REQUIRES: the client lives, and this has not been called. If it is destroyed without a call, an answer under
  // way is cancelled.
  using LateAnswer = std::function<absl::StatusOr<RpcMessage>()>;

  // Does not connect yet. `what`: names the server in errors. Errors: this build has no gRPC; the address is wrong; the
  // token has more than 4096 bytes; the file of TLS cannot be read, or is of no use.
  static absl::StatusOr<std::unique_ptr<RpcClient>> Create(const std::string& what,
                                                           const std::string& address,
                                                           const RpcOptions& options);
  // REQUIRES: no call runs, and there is no LateAnswer.
  virtual ~RpcClient() = default;

  // Tries again, until the deadline of the options, while the server is away or connections break. So the server may be
  // asked twice. Errors: those of the server's handler; UNAVAILABLE or DEADLINE_EXCEEDED, there was no answer until the
  // deadline; UNAUTHENTICATED, the server has another token; FAILED_PRECONDITION, it speaks another version of the
  // protocol.
  // `late`: for a call that the server answers twice; set unless the call fails.
  virtual absl::StatusOr<RpcMessage> Call(const RpcMessage& request, LateAnswer* late = nullptr) = 0;
  // Asks once. Without a deadline it takes as long as the server takes.
  virtual Attempt TryCall(const RpcMessage& request, std::optional<std::chrono::milliseconds> deadline) = 0;
  // Connects unless there is a connection, and waits for it, at most for so long. Returns whether there is a
  // connection.
  virtual bool WaitForConnection(std::chrono::milliseconds at_most) = 0;
  // The same. The log says when the server is lost, and when it is there again, as it does of servers that are called.
  virtual void LookForServer(std::chrono::milliseconds at_most) = 0;
  // Calls that run, and all later ones, end with CANCELLED.
  virtual void Cancel() = 0;

  virtual const std::string& address() const = 0;
};

}  // namespace meshwork
