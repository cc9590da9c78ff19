// Communicator: how the collectives of a program are carried out. A small interface: prepare a
// collective on buffers; start, wait, abort.
//
//   auto communicator = MakeThreadCommunicator();
//   ASSIGN_OR_RETURN(auto sum, communicator->Prepare(plan, addresses));
//   // every worker, every step, in program order, after the barrier that its plan asks for:
//   sum->Start(worker);  …  RETURN_IF_ERROR(sum->Wait(worker));
//
// A program's collectives are prepared once, in program order; Start and Wait are called once per
// step by every worker, collectives in the same order on all workers and in all processes, which is
// what makes deadlock impossible. The caller sees to it that a collective's operands are written
// before Start and its results read after Wait.
//
// Implementations. *Threads*, here: every device is in this process, so a collective is a list of
// transfers between its buffers, and each worker does its slices in Start. *Processes*: Prepare also
// gets the fingerprint-checked list of what crosses to other processes; worker 0 starts the exchange
// of one buffer per process (transfers within the process before and after it), Wait completes it.
// *NCCL*: Prepare makes the communicator of the group, Start enqueues on the device's stream, Wait
// makes the next stream depend on it. None of them copies a buffer that it can use in place.
//
// Prepare is called by one thread before the first step; Abort may be called by any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/transfer.h"

namespace meshwork {

struct CollectivePlan {
  std::string where;                           // "all_reduce (model.cc:41)", for errors
  std::vector<Transfer> transfers;             // the part within this process
  std::vector<std::vector<WorkSlice>> slices;  // per worker, of the transfers
};

class Collective {
 public:
  virtual ~Collective() = default;
  virtual void Start(int worker) = 0;
  // Returns when this worker's part of the results is in place. Error: the communicator was aborted,
  // with the reason; the results are then undefined.
  virtual absl::Status Wait(int worker) = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  // `addresses`, indexed by BufferId, must outlive the collective; its entries may change between
  // steps. The collective must not outlive the communicator.
  virtual absl::StatusOr<std::unique_ptr<Collective>> Prepare(CollectivePlan plan,
                                                              std::span<std::byte* const> addresses) = 0;
  // Every Wait from now on, those under way included, returns `reason`. The first reason stays.
  // REQUIRES: !reason.ok().
  virtual void Abort(absl::Status reason) = 0;
};

// All devices in this process.
std::unique_ptr<Communicator> MakeThreadCommunicator();

}  // namespace meshwork
