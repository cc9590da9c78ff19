// A coordinator's request that a worker runs a closure, as a message. Law: RunRequestFromMessage(RunMessage(x)) is x.
//
// Plain data and pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/train/parameter_server/rpc/closures.h"
#include "meshwork/train/parameter_server/rpc/message.h"

namespace meshwork {

struct RunRequest {
  std::string coordinator;  // one run of a process
  std::string closure;
  WorkerPlace worker;
  std::vector<PerWorker> resources;
  std::vector<Tensor> arguments;
};
RpcMessage RunMessage(RunRequest request);
absl::StatusOr<RunRequest> RunRequestFromMessage(const RpcMessage& message);  // error: it is no such message

}  // namespace meshwork
