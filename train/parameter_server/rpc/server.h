// RpcServer: answers calls over gRPC, and RpcClient (client.h) makes them. Calls carry an RpcMessage (message.h).
//
//   MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<RpcServer> server,
//                             RpcServer::Start("Parameter server", "0.0.0.0:4444", options,
//                                              [&](const RpcMessage& request) { return Answer(request); }));
//
// A call is refused, before it is read, unless its caller speaks the same version of the protocol and has the job's
// token.
//
// Each stream of calls has a thread of its own while it is open, so calls may wait for each other;
// RpcOptions::max_streams bounds how many there are. In the child of a fork that came after a server was made, there is
// none.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/train/parameter_server/rpc/message.h"
#include "meshwork/train/parameter_server/rpc/options.h"

namespace meshwork {

class RpcServer {
 public:
  // Called by several threads at a time. An error, or what it throws, goes to the caller, who reads it as it is. So
  // does the answer of RpcMessage::then, which is called when the first one is on its way.
  using Handler = std::function<absl::StatusOr<RpcMessage>(const RpcMessage& request)>;

  // Listens at host:port; port 0 chooses a free one. `what`: names the server in errors. Errors: this build has no
  // gRPC; the address is wrong, not one of this host, or taken; other hosts reach it, and there is neither a token nor
  // RpcOptions::insecure; an option is out of range; a file of TLS cannot be read, or is of no use.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& what, const std::string& address,
                                                          const RpcOptions& options, Handler handler);
  // Waits for the calls that run. Callers who have no answer then know that the server has ended.
  virtual ~RpcServer() = default;

  virtual int port() const = 0;
  // Whether a client of this task (RpcOptions::task) is connected, or was since the last call of IsConnected. A client
  // that has made a call stays connected until it ends, or the network breaks.
  virtual bool IsConnected(const std::string& task) const = 0;
  // From now on new calls are refused, and an ABORTED of the handler means that the server ends: callers try again, in
  // case it comes back.
  virtual void BeginToEnd() = 0;
};

}  // namespace meshwork
