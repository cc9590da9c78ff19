#include "meshwork/parameter_server/rpc/run_task.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/parameter_server/rpc/client.h"
#include "meshwork/parameter_server/rpc/store_server.h"
#include "meshwork/parameter_server/rpc/worker_server.h"
#include "meshwork/train/stop_signals.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace meshwork {
namespace {

constexpr std::chrono::milliseconds kLookForSignals{50};
constexpr std::chrono::seconds kForThoseAway{2};

// A process that serves gets messages of much the same sizes all the time. glibc would give their memory back to the system
// and fetch it anew, a page at a time, which takes as long as the copies.
void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

template <typename Server>
void ServeUntilAsked(Server& server) {
  while (!IsStopAsked() && !server.WaitForShutdown(kLookForSignals)) {
  }
}

}  // namespace

absl::StatusOr<bool> RunTask(const Cluster& cluster, const TaskOptions& options) {
  const Task& task = cluster.task();
  if (task.role == Role::kChief || task.role == Role::kEvaluator) return true;
  const std::string& address = cluster.AddressOf(task);
  if (address.empty())
    return absl::FailedPreconditionError(
        fmt::format("RunTask: nobody knows the address of {} ({}); name all workers in TF_CONFIG.",
                    task.ToString(), cluster.ToString()));
  CatchStopSignals();
  KeepFreedMemory();
  if (task.role == Role::kWorker) {
    MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerServer> server,
                              WorkerServer::Start(options.closures, address, options.rpc));
    ServeUntilAsked(*server);
    return false;
  }
  if (options.store == nullptr)
    return InvalidArgument(
        "RunTask: this process is {}, and TaskOptions::store makes none; give it a function.",
        task.ToString());
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<ParameterStore> store, options.store(task));
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<StoreServer> server,
                            StoreServer::Start(std::move(store), address, options.rpc, options.facts));
  ServeUntilAsked(*server);
  return false;
}

absl::Status ShutDownCluster(const Cluster& cluster, const RpcOptions& options) {
  std::vector<Task> tasks;
  for (const Role role : {Role::kWorker, Role::kPs})
    for (int64_t index = 0; index < cluster.count(role); ++index) tasks.push_back({role, index});
  absl::Status first;
  const auto end = std::chrono::steady_clock::now() + kForThoseAway;
  while (!tasks.empty()) {
    std::vector<Task> away;
    for (const Task& task : tasks) {
      const std::string what = task.role == Role::kPs ? "Parameter server" : "Worker";
      const auto client = RpcClient::Create(what, cluster.AddressOf(task), options);
      absl::Status status = client.status();
      if (client.ok()) {
        const RpcClient::Attempt asked = (*client)->TryCall({.call = "Shutdown"}, options.deadline);
        if (asked.is_lost) away.push_back(task);
        else status = asked.answer.status();
      }
      if (first.ok()) first = status;
    }
    if (std::chrono::steady_clock::now() > end) break;
    if (!away.empty()) std::this_thread::sleep_for(kLookForSignals);
    tasks = std::move(away);
  }
  return first;
}

}  // namespace meshwork
