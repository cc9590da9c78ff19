// BoundStep: a step with the memory that it reads and writes, run again and again (runtime/exec/executor.h).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/base/one_caller.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/staged_tensor.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

class PreparedStep;
class StepRecord;

// The tensors that a step reads and writes, by name: a host tensor for each input and each wanted output, or a DTensor
// if it is distributed (ExecutorOptions::distributed).
struct StepMemory {
  std::map<std::string, Tensor> feeds = {}, outputs = {};
  std::map<std::string, DTensor> distributed_feeds = {}, distributed_outputs = {};
  // Host tensors among `feeds` whose elements lie in the memory of the step's backend already, and are read there.
  std::map<std::string, StagedTensor> staged = {};
};

// Keeps its tensors and the prepared step alive. Made by Executor::Bind; the backend must outlive it. Only
// one step of an executor may run at a time, bound or not.
class BoundStep {
 public:
  // Runs one step, on what the fed tensors hold now. Allocates nothing unless it fails. Errors (the variables are then
  // as before the step with ExecutorOptions::atomic, and undefined without it): replicas that differ; no memory for a
  // kernel or for a library that it calls; an error of the transport, which makes the step fail in the other domains,
  // too, unless they have ended it. Other errors: this BoundStep was moved from; another call runs (RefuseBeside).
  absl::Status Run();
  // Refuses Run while another call runs that `caller` has begun: FailedPrecondition, and nothing is done. `object`: a
  // string literal that names the object which serves one call at a time.
  void RefuseBeside(std::shared_ptr<OneCaller> caller, const char* object) {
    caller_ = std::move(caller);
    object_ = object;
  }
  // Leaves the steps out of the executor's StepRecord.
  void DoNotCount() { record_ = nullptr; }
  // By name; each step overwrites them.
  const std::map<std::string, Tensor>& outputs() const { return memory_.outputs; }
  const std::map<std::string, DTensor>& distributed_outputs() const { return memory_.distributed_outputs; }

 private:
  friend class Executor;
  explicit BoundStep(std::shared_ptr<PreparedStep> step) : step_(std::move(step)) {}
  absl::Status RunAlone();

  std::shared_ptr<PreparedStep> step_;  // null once it was moved from
  // The variables whose new values lie in their spares when a step has run; null if there are none.
  std::shared_ptr<std::vector<DTensor>> updated_;
  std::shared_ptr<StepRecord> record_;  // null: nobody counts
  bool names_step_ = false;             // in errors
  std::shared_ptr<OneCaller> caller_;   // null: nobody else calls
  const char* object_ = nullptr;        // of caller_
  StepMemory memory_;
  std::vector<const std::byte*> feed_addresses_;  // per argument; null for variables
  std::vector<std::byte*> output_addresses_;      // per output; null where it is not asked for
  std::vector<const std::byte*> staged_;  // per argument; null where nothing is staged; empty: nowhere
};

}  // namespace meshwork
