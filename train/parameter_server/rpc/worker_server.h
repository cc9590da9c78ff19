// A WorkerServer runs closures (closures.h) for a coordinator (coordinator.h) in another process.
//
//   MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<WorkerServer> worker,
//                             WorkerServer::Start(closures, "0.0.0.0:4444", {.token = token}));
//   while (!worker->WaitForShutdown(std::chrono::seconds(1))) {}
//
// It serves one coordinator: when another one comes, the resources that it made for the last one are forgotten.
//
// Thread-safe. In the child of a fork that came after it was made, there is none.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/train/parameter_server/rpc/closures.h"
#include "meshwork/train/parameter_server/rpc/message.h"
#include "meshwork/train/parameter_server/rpc/options.h"
#include "meshwork/train/parameter_server/rpc/server.h"
#include "meshwork/train/parameter_server/rpc/shutdown_flag.h"

namespace meshwork {

struct RunRequest;

class WorkerServer {
 public:
  // Listens at host:port; port 0 chooses a free one. Errors: those of RpcServer::Start.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(ClosureRegistry closures,
                                                             const std::string& address,
                                                             const RpcOptions& options);
  // Waits for the closures that run, whose results are lost.
  ~WorkerServer();

  int port() const { return server_->port(); }
  bool IsConnected(const std::string& task) const { return server_->IsConnected(task); }  // RpcServer's
  // The names of all calls that a client may make.
  static std::vector<std::string> Calls();
  // Waits until a client has asked the server to end (ShutDownServer), at most for so long. Whether one has.
  bool WaitForShutdown(std::chrono::milliseconds at_most) { return shutdown_.WaitFor(at_most); }

 private:
  struct Slot;
  using Handler = absl::StatusOr<RpcMessage> (WorkerServer::*)(const RpcMessage& request);
  static const std::map<std::string, Handler>& Handlers();  // by call

  explicit WorkerServer(ClosureRegistry closures);
  absl::StatusOr<RpcMessage> Answer(const RpcMessage& request);
  absl::StatusOr<RpcMessage> AnswerRun(const RpcMessage& request);
  absl::StatusOr<RpcMessage> AnswerPing(const RpcMessage& request);
  absl::StatusOr<RpcMessage> AnswerShutdown(const RpcMessage& request);
  absl::StatusOr<RpcMessage> Run(const RunRequest& request);
  std::shared_ptr<Slot> SlotOf(const std::string& coordinator, int64_t id);

  const ClosureRegistry closures_;
  internal::ShutdownFlag shutdown_;
  std::mutex mutex_;
  std::string coordinator_;                         // whose resources these are
  std::map<int64_t, std::shared_ptr<Slot>> slots_;  // by PerWorker::id
  std::unique_ptr<RpcServer> server_;
};

}  // namespace meshwork
