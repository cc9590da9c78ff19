// BoundStep: a step with the memory that it reads and writes, run again and again (runtime/executor.h).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/runtime/dtensor.h"
#include "meshwork/runtime/tensor.h"

namespace meshwork {

class PreparedStep;

// What a step reads and writes, by name: a host tensor for each input, and for the outputs that are wanted; a
// DTensor for each of those that are distributed (ExecutorOptions::distributed).
struct StepMemory {
  std::map<std::string, Tensor> feeds = {}, outputs = {};
  std::map<std::string, DTensor> distributed_feeds = {}, distributed_outputs = {};
};

// Keeps its tensors alive, and what the backend prepared. Made by Executor::Bind; the backend must outlive
// it. One step of an executor runs at a time, bound or not.
class BoundStep {
 public:
  // One step, on what the fed tensors hold now. Allocates nothing unless it fails. Errors, after which the
  // variables are undefined: replicas that differ; no memory for a kernel or a library that it calls; one of
  // the transport, whose other domains then fail, too. Error besides: it was moved to another one.
  absl::Status Run();
  // By name; written anew by each step.
  const std::map<std::string, Tensor>& outputs() const { return memory_.outputs; }
  const std::map<std::string, DTensor>& distributed_outputs() const { return memory_.distributed_outputs; }

 private:
  friend class Executor;
  explicit BoundStep(std::shared_ptr<PreparedStep> step) : step_(std::move(step)) {}

  std::shared_ptr<PreparedStep> step_;  // null once it was moved from
  StepMemory memory_;
  std::vector<const std::byte*> feed_addresses_;  // per argument; null for variables
  std::vector<std::byte*> output_addresses_;      // per output; null where it is not asked for
};

}  // namespace meshwork
