#include "meshwork/train/parameter_server/rpc/run_task.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/log.h"
#include "meshwork/base/status.h"
#include "meshwork/train/cluster/stop_signals.h"
#include "meshwork/train/parameter_server/rpc/client.h"
#include "meshwork/train/parameter_server/rpc/presence.h"
#include "meshwork/train/parameter_server/rpc/store_server.h"
#include "meshwork/train/parameter_server/rpc/worker_server.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace meshwork {
namespace {

constexpr std::chrono::milliseconds kLookForSignals{50};
constexpr std::chrono::seconds kForThoseAway{2}, kToConnectAnew{2};

// A process that serves gets messages of much the same sizes all the time. glibc would give their memory back to the
// system and fetch it anew, a page at a time, which takes as long as the copies.
void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

// The processes of a cluster that call this one, for the log.
class Callers {
 public:
  explicit Callers(const Cluster& cluster) {
    const bool is_server = cluster.task().role == Role::kPs;
    for (const Role role : {Role::kChief, Role::kWorker})
      for (int64_t index = 0; index < cluster.count(role) && (is_server || role == Role::kChief); ++index)
        callers_.push_back(std::make_unique<Caller>(cluster, Task{role, index}));
  }

  template <typename Server>
  void Look(const Server& server) {
    for (const std::unique_ptr<Caller>& caller : callers_) {
      const bool is_there = server.IsConnected(caller->task);
      if (is_there) caller->presence.NoteThere();
      else
        caller->presence.NoteAway(caller->was_there ? "it has no connection to this process any more"
                                                    : "it has not called this process yet");
      caller->was_there |= is_there;
    }
  }

 private:
  struct Caller {
    Caller(const Cluster& cluster, const Task& of)
        : task(of.ToString()), presence(NameOf(cluster, of), OptionsOf(of)) {}
    static std::string NameOf(const Cluster& cluster, const Task& of) {
      const std::string& address = cluster.AddressOf(of);
      return address.empty() ? of.ToString() : fmt::format("{} at {}", of.ToString(), address);
    }
    // Workers may come and go. A client connects anew between two calls.
    static PresenceOptions OptionsOf(const Task& of) {
      return {.is_waited_for = of.role == Role::kChief, .grace = kToConnectAnew};
    }

    const std::string task;
    bool was_there = false;
    Presence presence;
  };
  std::vector<std::unique_ptr<Caller>> callers_;
};

// Serves until a client asks it to end (true), or a signal comes (false).
template <typename Server>
bool ServeUntilAsked(const Cluster& cluster, Server& server) {
  Callers callers(cluster);
  while (!IsStopAsked()) {
    if (server.WaitForShutdown(kLookForSignals)) return true;
    callers.Look(server);
  }
  return false;
}

}  // namespace

absl::StatusOr<bool> RunTask(const Cluster& cluster, const RunTaskOptions& options) {
  const Task& task = cluster.task();
  SetLogTask(task.ToString());
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
    ServeUntilAsked(cluster, *server);
    if (options.end_waits != nullptr) options.end_waits();
    return false;
  }
  if (options.store == nullptr)
    return InvalidArgument(
        "RunTask: this process is {}, and RunTaskOptions::store makes none; give it a function.",
        task.ToString());
  MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<ParameterStore> store, options.store(task));
  MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<StoreServer> server,
                            StoreServer::Start(store, address, options.rpc, options.facts));
  const bool is_asked = ServeUntilAsked(cluster, *server);
  server.reset();
  if (is_asked || !options.saves_at_stop) return false;
  MESHWORK_ASSIGN_OR_RETURN(const int64_t version, store->Save());
  Log(LogLevel::kInfo, "a signal ends this server; its version {} is saved, and it goes on from there.",
      version);
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
