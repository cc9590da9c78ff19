// A ClusterCoordinator has workers run closures (closures.h): the process that made it decides what is to be done, and
// any worker that is free does it.
//
//   MESHWORK_ASSIGN_OR_RETURN(auto coordinator, ClusterCoordinator::Create(cluster, {.rpc = {.token = token}}));
//   const PerWorker batches = coordinator->CreatePerWorkerDataset("train");
//   for (int step = 0; step < 1000; ++step)
//     MESHWORK_RETURN_IF_ERROR(coordinator->Schedule("train_step", {batches}).status());
//   MESHWORK_RETURN_IF_ERROR(coordinator->Join());
//
// Schedule does not wait for the closure, unless the queue is full. Any worker may run it, and closures run in any
// order; but a closure with another one's result as an argument runs after that one.
//
// Lost workers. A closure runs *at least once*: when its worker is lost, another one runs it again, whatever the lost
// one had done. A worker that was started again at the same address is used again; it makes its resources anew.
// Closures wait while no worker answers, for CoordinatorOptions::deadline at most.
//
// Errors. A closure that fails is not run again. The closures that wait are then cancelled, and the next call of
// Schedule or Join returns the first error, when no closure runs any more. Then the coordinator continues as if there
// had been no error.
//
// Thread-safe. In the child of a fork that came after it was made, there is none: Schedule and Join fail there.
// Source: tf.distribute.coordinator.ClusterCoordinator.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/train/parameter_server/rpc/closure_queue.h"
#include "meshwork/train/parameter_server/rpc/closures.h"
#include "meshwork/train/parameter_server/rpc/options.h"
#include "meshwork/train/parameter_server/rpc/remote_value.h"

namespace meshwork {

struct CoordinatorOptions {
  RpcOptions rpc = {};  // its deadline is not used: a closure takes as long as it takes
  // How long closures wait while no worker answers.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  int64_t closures_per_worker = 1;  // at a time, >= 1
  int64_t max_waiting = 1 << 18;    // closures in the queue, >= 1; Schedule waits while it is full
  // A closure fails when so many workers were lost while they ran it, >= 1: it may be the cause of the losses.
  int64_t max_losses = 10;
};

class ClusterCoordinator {
 public:
  // A coordinator of the cluster's workers. Does not wait for them. Errors: this build has no gRPC; the cluster has no
  // workers; this process is not its chief; an option is out of range; those of RpcClient::Create.
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Create(const Cluster& cluster,
                                                                    const CoordinatorOptions& options);
  // A coordinator of workers at these addresses, host:port.
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Create(const std::vector<std::string>& workers,
                                                                    const CoordinatorOptions& options);
  // Cancels closures that have not ended. Workers go on with those that they run; their results are lost.
  ~ClusterCoordinator();

  // A worker will run the closure that was registered by this name. Errors, and then it is not run: that of an earlier
  // closure; an argument is an invalid tensor, or of another coordinator.
  absl::StatusOr<RemoteValue> Schedule(const std::string& name, std::vector<ClosureArgument> arguments = {});
  // Waits until all closures have ended. Errors: the first one of a closure; UNAVAILABLE, no worker has answered within
  // the deadline; it names those that were asked.
  absl::Status Join();
  // Waits, at most for so long, until at most `waiting` closures wait for a worker, or one has failed. Returns whether
  // that is so.
  bool WaitForFew(int64_t waiting, std::chrono::milliseconds at_most);
  // Cancels the closures that wait. The next call of Schedule or Join returns this error, if there is no earlier one.
  void CancelWaiting(const absl::Status& why);
  // Whether no closure waits or runs: Join would not wait.
  bool Done() const;

  // Each worker will make a resource, or a data set, that was registered by this name, when a closure needs it first.
  PerWorker CreatePerWorker(const std::string& name);
  PerWorker CreatePerWorkerDataset(const std::string& name) { return CreatePerWorker(name); }

  int64_t num_workers() const;

 private:
  class Impl;
  explicit ClusterCoordinator(UnlessForked<Impl> impl);

  const ForkMark made_;
  const UnlessForked<Impl> impl_;
};

}  // namespace meshwork
