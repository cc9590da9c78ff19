#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_graph.h"

#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// A graph that is not instantiated yet; destroyed at the end.
struct CapturedGraph {
  const CudaContext& context;
  CUgraph handle = nullptr;
  ~CapturedGraph() {
    if (handle != nullptr) context.api().cuGraphDestroy(handle);
  }
};

}  // namespace

CudaGraph::CudaGraph(CudaGraph&& other) noexcept { *this = std::move(other); }

CudaGraph& CudaGraph::operator=(CudaGraph&& other) noexcept {
  if (this == &other) return *this;
  Destroy();
  context_ = std::move(other.context_);
  handle_ = std::exchange(other.handle_, nullptr);
  num_nodes_ = std::exchange(other.num_nodes_, 0);
  return *this;
}

CudaGraph::~CudaGraph() { Destroy(); }

void CudaGraph::Destroy() {
  if (handle_ == nullptr || !context_->is_here()) return;
  const CudaContext::Scope scope(*context_);
  context_->api().cuGraphExecDestroy(std::exchange(handle_, nullptr));
}

absl::StatusOr<CudaGraph> CudaGraph::Capture(const CudaStream& stream,
                                             const std::function<absl::Status()>& enqueue) {
  const CudaContext& context = stream.context();
  const CudaApi& api = context.api();
  const CudaContext::Scope scope(context);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  // Other threads may call any function of the driver meanwhile.
  MESHWORK_RETURN_IF_ERROR(
      context.ToStatus(api.cuStreamBeginCapture(stream.handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                       "beginning to capture a graph"));
  const absl::Status enqueued = enqueue();
  CapturedGraph captured{context};
  const absl::Status ended =
      context.ToStatus(api.cuStreamEndCapture(stream.handle(), &captured.handle), "capturing a graph");
  MESHWORK_RETURN_IF_ERROR(enqueued);
  MESHWORK_RETURN_IF_ERROR(ended);
  size_t num_nodes = 0;
  MESHWORK_RETURN_IF_ERROR(context.ToStatus(api.cuGraphGetNodes(captured.handle, nullptr, &num_nodes),
                                            "counting the nodes of a graph"));
  CudaGraph graph;
  graph.context_ = stream.shared_context();
  graph.num_nodes_ = static_cast<int64_t>(num_nodes);
  MESHWORK_RETURN_IF_ERROR(
      context.ToStatus(api.cuGraphInstantiate(&graph.handle_, captured.handle, 0),
                       fmt::format("instantiating a graph of {}", Count(graph.num_nodes_, "node"))));
  return graph;
}

absl::Status CudaGraph::Launch(const CudaStream& stream) const {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  return context_->ToStatus(context_->api().cuGraphLaunch(handle_, stream.handle()),
                            fmt::format("launching a graph of {}", Count(num_nodes_, "node")));
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
