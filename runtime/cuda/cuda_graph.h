// Work that is enqueued once and launched many times, by one call.
//
//   MESHWORK_ASSIGN_OR_RETURN(const CudaGraph step, CudaGraph::Capture(*compute, [&]() -> absl::Status {
//     MESHWORK_RETURN_IF_ERROR(first.Launch(*compute, shape, arguments));
//     return second.Launch(*compute, shape, arguments);
//   }));
//   MESHWORK_RETURN_IF_ERROR(step.Launch(*compute));   // as often as wanted
//
// A launch uses the addresses and the values of the capture: the buffers must stay. Only one thread at a time may use a
// graph.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_stream.h"

namespace meshwork {

class CudaGraph {
 public:
  CudaGraph(CudaGraph&& other) noexcept;
  CudaGraph& operator=(CudaGraph&& other) noexcept;
  ~CudaGraph();

  // Calls `enqueue` once. The work that it puts on `stream` becomes the graph, and runs only in launches. Other
  // streams take part from where they wait for an event of the capture, and `stream` must wait for their last work
  // before `enqueue` returns. Nothing in it may wait on the host, allocate, or free. Errors: that of `enqueue`; other
  // streams that `stream` does not wait for; waits for what is not captured; what CUDA reports. No stream is
  // capturing afterwards.
  static absl::StatusOr<CudaGraph> Capture(const CudaStream& stream,
                                           const std::function<absl::Status()>& enqueue);

  // Kernels, copies and fills.
  int64_t num_nodes() const { return num_nodes_; }

  // Puts the graph on a stream of the same GPU. One launch begins when the one before has ended.
  absl::Status Launch(const CudaStream& stream) const;

 private:
  CudaGraph() = default;
  void Destroy();

  std::shared_ptr<const CudaContext> context_;
  CUgraphExec handle_ = nullptr;
  int64_t num_nodes_ = 0;
};

}  // namespace meshwork
