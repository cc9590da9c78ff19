// Capture of streams, and graphs.
#include "support/simulated_world.h"

namespace meshwork {

CUresult SimulatedWorld::CheckNoCapture(int device) {
  bool captures = false;
  for (auto& entry : streams_) {
    SimulatedStream& stream = entry.second;
    if (stream.capture == nullptr || stream.device != device || stream.capture->is_relaxed ||
        stream.capture->thread != std::this_thread::get_id())
      continue;
    stream.capture->is_invalid = true;
    captures = true;
  }
  return captures ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(handle, stream); result != CUDA_SUCCESS) return result;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<SimulatedCapture>();
  stream->capture->origin = reinterpret_cast<uintptr_t>(handle);
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->is_relaxed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
  stream->tails.clear();
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  SimulatedStream* stream = nullptr;
  const CUresult state = StreamOf(handle, stream);
  if (stream == nullptr) return state;
  const std::shared_ptr<SimulatedCapture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != reinterpret_cast<uintptr_t>(handle)) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (!capture->is_relaxed && capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  capture->is_over = true;
  // The nodes that the origin's last nodes wait for, directly or not.
  std::vector<bool> joined(capture->nodes.size());
  for (const size_t tail : stream->tails) joined[tail] = true;
  for (size_t i = capture->nodes.size(); i-- > 0;)
    if (joined[i])
      for (const size_t before : capture->nodes[i].after) joined[before] = true;
  bool all_joined = true;
  for (auto& entry : streams_) {
    SimulatedStream& other = entry.second;
    if (other.capture != capture) continue;
    for (const size_t tail : other.tails) all_joined = all_joined && joined[tail];
    other.capture = nullptr;
    other.tails.clear();
  }
  if (state != CUDA_SUCCESS) return state;
  if (capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!all_joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (is_failing) return CUDA_SUCCESS;
  const uintptr_t made = NewHandle();
  graphs_[made] = {.device = stream->device, .nodes = std::move(capture->nodes)};
  *graph = reinterpret_cast<CUgraph>(made);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(handle, stream); result != CUDA_SUCCESS) return result;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture == nullptr) *status = CU_STREAM_CAPTURE_STATUS_NONE;
  else if (stream->capture->is_invalid) *status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  else *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  const SimulatedGraph* const graph = FindHandle(graphs_, handle);
  if (graph == nullptr || count == nullptr || nodes != nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuGraphInstantiate(CUgraphExec* exec, CUgraph handle, unsigned long long flags) {
  const SimulatedGraph* const graph = FindHandle(graphs_, handle);
  if (graph == nullptr || exec == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult lost = StateOf(graph->device); lost != CUDA_SUCCESS) return lost;
  const uintptr_t made = NewHandle();
  execs_[made].graph = *graph;
  *exec = reinterpret_cast<CUgraphExec>(made);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(stream_handle, stream); result != CUDA_SUCCESS) return result;
  SimulatedGraphExec* const exec = FindHandle(execs_, handle);
  if (exec == nullptr || exec->graph.device != stream->device) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != nullptr) {
    stream->capture->is_invalid = true;
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const SimulatedOpPtr begin = work.Add(stream->device, {}, {stream->last, exec->last});
  std::vector<SimulatedOpPtr> ops, all = {begin};
  for (const SimulatedNode& node : exec->graph.nodes) {
    std::vector<SimulatedOpPtr> after = {begin};
    for (const size_t before : node.after) after.push_back(ops[before]);
    ops.push_back(node.meets ? work.AddMeeting(node.device, node.meets(), after)
                             : work.Add(node.device, node.run, after));
    all.push_back(ops.back());
  }
  stream->last = exec->last = work.Add(stream->device, {}, all);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuGraphExecDestroy(CUgraphExec handle) {
  const SimulatedGraphExec* const exec = FindHandle(execs_, handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int device = exec->graph.device;
  execs_.erase(reinterpret_cast<uintptr_t>(handle));
  return StateOf(device);
}

CUresult SimulatedWorld::cuGraphDestroy(CUgraph handle) {
  return graphs_.erase(reinterpret_cast<uintptr_t>(handle)) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace meshwork
