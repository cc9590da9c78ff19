// ClosureQueue: the closures of a coordinator that have not ended, and the first of their errors.
//
// After an error, the waiting closures are cancelled, and none begins until Put or Join has reported the error. They
// first wait until no closure runs; then the error is forgotten.
//
// Thread-safe. Source: _CoordinatedClosureQueue of tensorflow/python/distribute/coordinator/cluster_coordinator.py.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/train/parameter_server/rpc/closures.h"
#include "meshwork/train/parameter_server/rpc/remote_value.h"

namespace meshwork {

// A tensor; all results of another closure, in order, for which the closure waits; or a resource of the worker that
// runs it.
using ClosureArgument = std::variant<Tensor, RemoteValue, PerWorker>;

class ClosureQueue {
 public:
  struct Closure {
    std::string name;
    std::vector<ClosureArgument> arguments;
    RemoteValue value;
    int64_t losses = 0;  // workers that were lost while they ran it
  };

  // At most `max_waiting` closures wait. A closure is not run again once `max_losses` workers were lost while they ran
  // it.
  ClosureQueue(int64_t max_waiting, int64_t max_losses)
      : max_waiting_(max_waiting), max_losses_(max_losses) {}

  // Waits while the queue is full. Errors: that of an earlier closure; CANCELLED, the queue has ended.
  absl::Status Put(Closure closure);
  // Waits for a closure whose arguments are there, and takes the first such one. `tensors`: the tensors among its
  // arguments. Of several waiting callers, the last one gets it: its worker's memory and connections are warm. Nothing:
  // the queue has ended. REQUIRES: the caller calls PutBack or FinishAndTake for the closure.
  std::optional<Closure> Take(std::vector<Tensor>& tensors);
  // A worker was lost while it ran the closure: another one runs it.
  void PutBack(Closure closure, const absl::Status& why);
  // Ends a closure, and takes the next one. Somebody who waits for the results, and then puts a closure, finds the
  // caller waiting for one.
  std::optional<Closure> FinishAndTake(const Closure& closure, absl::StatusOr<std::vector<Tensor>> results,
                                       std::vector<Tensor>& tensors);

  // Waits, at most for so long, until at most `waiting` closures wait, or there is an error. Returns whether that is
  // so.
  bool WaitForFew(int64_t waiting, std::chrono::milliseconds at_most);
  // Reports an error that is not of a closure.
  void Fail(const absl::Status& error);
  // Waits until no closure waits or runs. Error: the first one of a closure, or of Fail.
  absl::Status Join();
  bool HasNone() const;
  // Cancels the closures that wait, and all that are put later.
  void End();

 private:
  bool AreThere(const Closure& closure) const;
  std::optional<Closure> TakeLocked(std::unique_lock<std::mutex>& lock, std::vector<Tensor>& tensors);
  void WakeLastLocked();
  void WakeAllLocked();
  void EndedLocked();  // a closure that ran
  void FailLocked(const absl::Status& error);
  absl::Status TakeErrorLocked(std::unique_lock<std::mutex>& lock);

  const int64_t max_waiting_, max_losses_;
  mutable std::mutex mutex_;
  // The callers that wait in Take; the last one has waited for the shortest time. A caller is taken out when it is
  // woken.
  std::vector<std::condition_variable*> idle_;
  std::condition_variable changed_;  // for all others that wait
  std::deque<Closure> waiting_;
  int64_t num_running_ = 0;
  absl::Status error_;
  bool has_ended_ = false;
};

}  // namespace meshwork
