// RunTask: what a process of a cluster with parameter servers does, by its role. All processes run the same main:
//
//   MESHWORK_ASSIGN_OR_RETURN(const Cluster cluster, Cluster::FromEnvironment(ProcessEnvironment()));
//   MESHWORK_ASSIGN_OR_RETURN(const bool goes_on, RunTask(cluster, {.rpc = rpc, .store = make_store, .closures = closures}));
//   if (!goes_on) return absl::OkStatus();                             // a server, which has served
//   …                                                                  // the chief: coordinates
//   return ShutDownCluster(cluster, rpc);
//
// Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/train/parameter_server/rpc/closures.h"
#include "meshwork/train/parameter_server/rpc/options.h"
#include "meshwork/train/parameter_server/rpc/store_messages.h"
#include "meshwork/train/parameter_server/store.h"

namespace meshwork {

struct RunTaskOptions {
  RpcOptions rpc = {};
  // Makes the store that a task "ps" serves; called there alone.
  std::function<absl::StatusOr<std::shared_ptr<ParameterStore>>(const Task& task)> store = {};
  JobFacts facts = {};            // of the store
  ClosureRegistry closures = {};  // that a task "worker" runs
  bool saves_at_stop = false;     // whether a task "ps" that a signal ends saves its store before
  // Called when a task "worker" is to end, before it waits for its running closures: ends what these wait for. May be
  // null.
  std::function<void()> end_waits = {};
};

// A parameter server serves its store at its address in the cluster. A worker runs closures. Both go on until
// ShutDownCluster, SIGTERM or SIGINT asks them to end, and then return false. A second signal ends the process at once.
// Both keep up to 256 MiB of freed memory for the messages to come. The chief and an evaluator return true at once.
// Errors: the store's, also as it saves for saves_at_stop; a task "ps" without a store; those of StoreServer::Start and
// WorkerServer::Start; nobody knows the task's address.
absl::StatusOr<bool> RunTask(const Cluster& cluster, const RunTaskOptions& options);

// Asks all parameter servers and workers of the cluster to end. Processes that are away are asked again for two
// seconds; one that is started again later serves until a signal. Errors: those of RpcClient::Create; the first one
// that a server refuses with. All are asked.
absl::Status ShutDownCluster(const Cluster& cluster, const RpcOptions& options);

}  // namespace meshwork
