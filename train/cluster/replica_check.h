// ReplicaCheck: whether devices that a layout gives the same block still hold the same bits, in all processes.
//
//   MESHWORK_ASSIGN_OR_RETURN(const ReplicaCheck replicas, ReplicaCheck::Create(processes, /*every=*/100));
//   for (int64_t step = 1; step <= steps; ++step) {
//     MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run(feeds));
//     MESHWORK_RETURN_IF_ERROR(replicas.AfterStep(step, session));   // in all processes
//   }
//
//   Replicas: variable "w1", f32[784,300] {_,_} on [batch=2*4], differs at step 120: devices 0-3 of worker 0 on host-a
//   hold 5f3a0c6b11d2e984, devices 4-7 of worker 1 on host-b hold 77c01b4aa09f3d55; memory may be bad, or a kernel may
//   not give the same bits everywhere; go on from the checkpoint before.
//
// Every process computes the weights that it holds by itself, from sums that are the same everywhere. So an error of
// the memory, or of a kernel that gives other bits on another processor, stays in the weights of one process, and
// spoils the gradients of all. A check hashes each variable's blocks, those of optimizers included, without padding,
// bit by bit: -0 is not 0, and NaNs are compared by their bits. Blocks that no other device holds are not read. Hashes
// take about as long as reading the memory once. The processes compare one hash of everything; only where it differs,
// those of single blocks. With three replicas or more, those that differ from most are named.
//
// Replicas within one process are one block of memory, unless ExecutorOptions::share is off; ExecutorOptions::
// check_replicas compares those in every step (runtime/exec/replicas.h).
//
// Thread safety: one thread at a time, and none that runs the session.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/session/session.h"
#include "meshwork/train/cluster/processes.h"

namespace meshwork {

struct ReplicaCheckOptions {
  int64_t every = 0;               // steps; 0: there are no checks
  Transport* transport = nullptr;  // the session's; it must outlive the check. Null: there is one domain
  std::string name = {};           // of this domain, for messages; "": "domain 1"
};

class ReplicaCheck {
 public:
  // Checks nothing.
  ReplicaCheck() = default;
  // All domains call it. Errors: `every` is negative, or differs between domains; those of the transport.
  static absl::StatusOr<ReplicaCheck> Create(ReplicaCheckOptions options);
  static absl::StatusOr<ReplicaCheck> Create(const Processes& processes, int64_t every);

  // After each step, which is counted from 1, compares the replicas if `step` is a multiple of `every`. All domains
  // call it alike. Errors, in all domains: DataLoss, if replicas differ; domains that check other variables, or another
  // step; those of the transport and of the memory.
  absl::Status AfterStep(int64_t step, const Session& session) const;

 private:
  explicit ReplicaCheck(ReplicaCheckOptions options) : options_(std::move(options)) {}

  ReplicaCheckOptions options_;
};

// The same once, for variables by name, such as Session::State. `step` and `name`: for messages.
// REQUIRES: the variables are valid, and all on one placement, with the transport's domains.
absl::Status CheckReplicas(const std::map<std::string, DTensor>& variables, int64_t step,
                           Transport* transport = nullptr, std::string_view name = "");

// "every=100" -> 100; "off" -> 0. Error: another text; it is the value of the flag --check-replicas.
absl::StatusOr<int64_t> ParseReplicaCheck(std::string_view text);

}  // namespace meshwork
