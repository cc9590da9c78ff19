#include "meshwork/train/parameter_server/rpc/worker_server.h"

#include <any>
#include <utility>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/train/parameter_server/rpc/run_request.h"

namespace meshwork {
// Is filled by the first closure that needs it, while others wait.
struct WorkerServer::Slot {
  std::mutex mutex;
  std::any value;
};

WorkerServer::WorkerServer(ClosureRegistry closures) : closures_(std::move(closures)) {}

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(ClosureRegistry closures,
                                                                  const std::string& address,
                                                                  const RpcOptions& options) {
  std::unique_ptr<WorkerServer> made(new WorkerServer(std::move(closures)));
  MESHWORK_ASSIGN_OR_RETURN(made->server_, RpcServer::Start("Worker", address, options,
                                                            [server = made.get()](const RpcMessage& request) {
                                                              return server->Answer(request);
                                                            }));
  return made;
}

WorkerServer::~WorkerServer() = default;

absl::StatusOr<RpcMessage> WorkerServer::Answer(const RpcMessage& request) {
  const auto handler = Handlers().find(request.call);
  if (handler != Handlers().end()) return (this->*handler->second)(request);
  return absl::UnimplementedError(fmt::format(
      "{}: this is a worker, which has no such call; check the address.", Printable(request.call)));
}

const std::map<std::string, WorkerServer::Handler>& WorkerServer::Handlers() {
  static const auto* const handlers =
      new std::map<std::string, Handler>{{"Run", &WorkerServer::AnswerRun},
                                         {"Ping", &WorkerServer::AnswerPing},
                                         {"Shutdown", &WorkerServer::AnswerShutdown}};
  return *handlers;
}

std::vector<std::string> WorkerServer::Calls() {
  std::vector<std::string> calls;
  for (const auto& [call, handler] : Handlers()) calls.push_back(call);
  return calls;
}

absl::StatusOr<RpcMessage> WorkerServer::AnswerRun(const RpcMessage& request) {
  MESHWORK_ASSIGN_OR_RETURN(const RunRequest run, RunRequestFromMessage(request));
  return Run(run);
}

absl::StatusOr<RpcMessage> WorkerServer::AnswerPing(const RpcMessage&) { return RpcMessage(); }

absl::StatusOr<RpcMessage> WorkerServer::AnswerShutdown(const RpcMessage&) {
  shutdown_.Ask();
  return RpcMessage();
}

absl::StatusOr<RpcMessage> WorkerServer::Run(const RunRequest& request) {
  std::vector<ClosureContext::NamedResource> resources;
  for (const PerWorker& resource : request.resources) {
    const std::shared_ptr<Slot> slot = SlotOf(request.coordinator, resource.id);
    const std::lock_guard lock(slot->mutex);
    if (!slot->value.has_value()) {
      MESHWORK_ASSIGN_OR_RETURN(slot->value, closures_.MakeResource(resource.name, request.worker));
    }
    resources.push_back({resource.name, slot->value});
  }
  ClosureContext context(request.worker, std::move(resources));
  MESHWORK_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                            closures_.Run(request.closure, context, request.arguments));
  return RpcMessage{.tensors = std::move(results)};
}

std::shared_ptr<WorkerServer::Slot> WorkerServer::SlotOf(const std::string& coordinator, int64_t id) {
  std::map<int64_t, std::shared_ptr<Slot>> forgotten;  // ends behind the lock
  const std::lock_guard lock(mutex_);
  if (coordinator != coordinator_) forgotten = std::exchange(slots_, {});
  coordinator_ = coordinator;
  std::shared_ptr<Slot>& slot = slots_[id];
  if (slot == nullptr) slot = std::make_shared<Slot>();
  return slot;
}

}  // namespace meshwork
