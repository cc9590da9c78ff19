// The state behind the table of SimulatedCuda (simulated_cuda.h), with a member for each function of the
// table. Only its own sources and simulated_cuda.cc include it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/simulated_cublas.h"
#include "support/simulated_cuda.h"
#include "support/simulated_cudnn.h"
#include "support/simulated_memory.h"
#include "support/simulated_nccl.h"
#include "support/simulated_work.h"

namespace meshwork {

struct SimulatedNode {
  int device = 0;
  std::function<void()> run;
  std::vector<size_t> after;  // nodes before it that it waits for
  // Of a meeting (simulated_work.h): makes the `meets` of each launch.
  std::function<std::function<bool()>()> meets = nullptr;
};

struct SimulatedCapture {
  uintptr_t origin = 0;  // the stream that begins and ends it
  std::thread::id thread;
  bool is_relaxed = false;
  bool is_invalid = false;
  bool is_over = false;
  std::vector<SimulatedNode> nodes;
};

struct SimulatedStream {
  int device = 0;
  SimulatedOpPtr last;
  std::shared_ptr<SimulatedCapture> capture;
  std::vector<size_t> tails;  // nodes of the capture that the next one waits for
};

struct SimulatedEvent {
  int device = 0;
  bool has_time = false;
  bool is_recorded = false;
  SimulatedOpPtr op;
  std::shared_ptr<SimulatedCapture> capture;
  std::vector<size_t> tails;
};

struct SimulatedGraph {
  int device = 0;
  std::vector<SimulatedNode> nodes;
};

struct SimulatedGraphExec {
  SimulatedGraph graph;
  SimulatedOpPtr last;
};

struct SimulatedModule {
  int device = 0;
  std::shared_ptr<SimulatedKernels> kernels;
};

struct SimulatedFunction {
  uintptr_t module = 0;
  std::string name;
  int shared_bytes = 48 << 10;
};

struct SimulatedProgram {
  std::string source, name, log, code, ptx;
};

struct SimulatedContext {
  int retained = 0;
  CUresult lost = CUDA_SUCCESS;
};

// An operation that a library puts on a stream: it reads operands, writes a result, and spoils its workspace.
struct LibraryWork {
  struct Place {
    uintptr_t address = 0;
    int64_t bytes = 0;
  };
  std::string who;  // in findings: "a product on GPU 0"
  std::vector<Place> operands = {};
  Place result = {}, workspace = {};
  std::function<bool()> is_there = nullptr;  // whether its handle still exists
  std::function<void()> run = nullptr;
};

// The lock of a thread inside the driver; only its holder touches the memory of GPUs. The memory is opened
// only by functions that touch it: most calls do not, and opening takes some system time.
class SimulatedGate {
 public:
  explicit SimulatedGate(SimulatedMemory& memory) : memory_(memory) {}
  void lock() { mutex_.lock(); }
  void unlock() {
    memory_.Close();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  SimulatedMemory& memory_;
};

class SimulatedWorld {
 public:
  explicit SimulatedWorld(const SimulatedCudaOptions& options);
  ~SimulatedWorld();
  static SimulatedWorld& Get();

  // Calls f(world) as the function `name` of the table, unless it is to fail.
  template <typename F>
  auto Enter(const char* name, F&& f) {
    using Result = decltype(f(*this));
    const std::lock_guard lock(mutex);
    const std::optional<CUresult> failure = NextFailure(name);
    if (!failure) return f(*this);
    if (failed_call_released) {
      is_failing = true;
      f(*this);
      is_failing = false;
    }
    if constexpr (std::is_same_v<Result, CUresult>) return *failure;
    else if constexpr (std::is_same_v<Result, nvrtcResult>) return NVRTC_ERROR_INTERNAL_ERROR;
    else if constexpr (std::is_same_v<Result, cublasStatus_t>) return CUBLAS_STATUS_INTERNAL_ERROR;
    else if constexpr (std::is_same_v<Result, CudnnStatus>) return CudnnStatus::kInternalError;
    else if constexpr (std::is_same_v<Result, NcclResult>) return NcclResult::kSystemError;
    else return f(*this);
  }

  // ---- simulated_cuda.cc
  CUresult cuGetErrorName(CUresult result, const char** name);
  CUresult cuGetErrorString(CUresult result, const char** text);
  const char* nvrtcGetErrorString(nvrtcResult result);
  void ReportLeaks();
  // ---- simulated_driver.cc
  CUresult cuInit(unsigned flags);
  CUresult cuDriverGetVersion(int* version);
  CUresult cuDeviceGetCount(int* count);
  CUresult cuDeviceGet(CUdevice* device, int ordinal);
  CUresult cuDeviceGetName(char* name, int length, CUdevice device);
  CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device);
  CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device);
  CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device);
  CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device);
  CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
  CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t kept);
  CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
  CUresult cuDevicePrimaryCtxRelease(CUdevice device);
  CUresult cuCtxPushCurrent(CUcontext context);
  CUresult cuCtxPopCurrent(CUcontext* context);
  CUresult cuCtxSynchronize();
  CUresult cuMemGetInfo(size_t* free, size_t* total);
  CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes);
  CUresult cuMemFree(CUdeviceptr address);
  CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream);
  CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
  CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned flags);
  CUresult cuMemFreeHost(void* address);
  // ---- simulated_copies.cc
  CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream);
  CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                             size_t bytes, CUstream stream);
  CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream);
  CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
  // ---- simulated_streams.cc
  CUresult cuStreamCreate(CUstream* stream, unsigned flags);
  CUresult cuStreamDestroy(CUstream stream);
  CUresult cuStreamQuery(CUstream stream);
  CUresult cuStreamSynchronize(CUstream stream);
  CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
  CUresult cuEventCreate(CUevent* event, unsigned flags);
  CUresult cuEventDestroy(CUevent event);
  CUresult cuEventRecord(CUevent event, CUstream stream);
  CUresult cuEventQuery(CUevent event);
  CUresult cuEventSynchronize(CUevent event);
  CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);
  // ---- simulated_graphs.cc
  CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode);
  CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph);
  CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status);
  CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count);
  CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags);
  CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
  CUresult cuGraphExecDestroy(CUgraphExec exec);
  CUresult cuGraphDestroy(CUgraph graph);
  // ---- simulated_modules.cc
  CUresult cuModuleLoadData(CUmodule* module, const void* image);
  CUresult cuModuleUnload(CUmodule module);
  CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name);
  CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);
  CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                          CUstream stream, void** arguments, void** extra);
  nvrtcResult nvrtcVersion(int* major, int* minor);
  nvrtcResult nvrtcGetNumSupportedArchs(int* count);
  nvrtcResult nvrtcGetSupportedArchs(int* architectures);
  nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name, int num_headers,
                                 const char* const* headers, const char* const* include_names);
  nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program);
  nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int num_options, const char* const* options);
  nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes);
  nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log);
  nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes);
  nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code);
  nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes);
  nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx);

  // ---- simulated_cublas.cc
  size_t cublasLtGetVersion();
  const char* cublasLtGetStatusName(cublasStatus_t status);
  cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle);
  cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
  cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                          cudaDataType_t scale);
  cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle);
  cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                                cublasLtMatmulDescAttributes_t attribute, const void* value,
                                                size_t bytes);
  cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                                            uint64_t columns, int64_t stride);
  cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle);
  cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                  cublasLtMatrixLayoutAttribute_t attribute,
                                                  const void* value, size_t bytes);
  cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made);
  cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle);
  cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                      cublasLtMatmulPreferenceAttributes_t attribute,
                                                      const void* value, size_t bytes);
  cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                cublasLtMatmulPreference_t preference, int most,
                                                cublasLtMatmulHeuristicResult_t* results, int* num_results);
  cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                                const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                                cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                                cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
                                const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                size_t workspace_bytes, cudaStream_t stream);

  // ---- simulated_cudnn.cc
  size_t cudnnGetVersion();
  const char* cudnnGetErrorString(CudnnStatus status);
  CudnnStatus cudnnCreate(CudnnHandle** handle);
  CudnnStatus cudnnDestroy(CudnnHandle* handle);
  CudnnStatus cudnnSetStream(CudnnHandle* handle, CUstream stream);
  CudnnStatus cudnnBackendCreateDescriptor(CudnnDescriptorType type, CudnnDescriptor* made);
  CudnnStatus cudnnBackendDestroyDescriptor(CudnnDescriptor handle);
  CudnnStatus cudnnBackendFinalize(CudnnDescriptor handle);
  CudnnStatus cudnnBackendSetAttribute(CudnnDescriptor handle, CudnnAttribute attribute, CudnnType type,
                                       int64_t count, const void* values);
  CudnnStatus cudnnBackendGetAttribute(CudnnDescriptor handle, CudnnAttribute attribute, CudnnType type,
                                       int64_t most, int64_t* count, void* values);
  CudnnStatus cudnnBackendExecute(CudnnHandle* handle, CudnnDescriptor plan, CudnnDescriptor pack);

  // ---- simulated_nccl.cc
  NcclResult ncclGetVersion(int* version);
  NcclResult ncclGetUniqueId(NcclUniqueId* id);
  const char* ncclGetErrorString(NcclResult result);
  const char* ncclGetLastError(NcclComm* comm);
  NcclResult ncclCommInitRankConfig(NcclComm** comm, int num_ranks, NcclUniqueId id, int rank,
                                    NcclConfig* config);
  NcclResult ncclCommFinalize(NcclComm* comm);
  NcclResult ncclCommDestroy(NcclComm* comm);
  NcclResult ncclCommAbort(NcclComm* comm);
  NcclResult ncclCommGetAsyncError(NcclComm* comm, NcclResult* result);
  NcclResult ncclGroupStart();
  NcclResult ncclGroupEnd();
  NcclResult ncclSend(const void* from, size_t count, NcclType type, int peer, NcclComm* comm,
                      CUstream stream);
  NcclResult ncclRecv(void* to, size_t count, NcclType type, int peer, NcclComm* comm, CUstream stream);
  NcclResult ncclAllReduce(const void* from, void* to, size_t count, NcclType type, NcclOp op, NcclComm* comm,
                           CUstream stream);

  mutable SimulatedGate mutex{memory};
  CudaApi api;
  const SimulatedCudaOptions options;
  std::vector<std::string> findings;
  SimulatedMemory memory;
  SimulatedWork work;
  // The call that is to fail: it counts calls_to_failure down to 0. failing_function: empty for any function.
  std::string failing_function, failed_call, kernel_error;
  int64_t calls_to_failure = 0;
  CUresult failure = CUDA_SUCCESS;
  bool failed_call_released = false;
  bool is_failing = false;  // the call in progress returns an error, but does its work
  int64_t num_products = 0, num_convolutions = 0;
  // A kernel or product fails if its run counts work_to_failure down to 0.
  int64_t work_to_failure = 0;
  CUresult work_failure = CUDA_SUCCESS;
  int64_t num_exchanges = 0;  // of NCCL, that were accepted
  int64_t num_sums = 0;       // ncclAllReduce, the same
  int lost_rank = -1;         // the other ranks are told

 private:
  std::optional<CUresult> NextFailure(std::string_view name);
  void Find(std::string finding) { findings.push_back(std::move(finding)); }
  uintptr_t NewHandle() { return next_handle_ += 16; }

  // The device whose context is current for this thread, if it can be used.
  CUresult Current(int& device) const;
  CUresult StateOf(int device) const;
  bool IsDevice(int device) const { return device >= 0 && device < static_cast<int>(contexts_.size()); }
  // The device of a context; -1: the handle is no context.
  int DeviceOf(CUcontext context) const;
  // Sets `stream` if it exists; returns whether its device can be used. Without a current context there is no
  // stream, except in calls that destroy or free, which take the context from the handle.
  CUresult StreamOf(CUstream handle, SimulatedStream*& stream, bool needs_context = true);
  void Lose(int device, CUresult result);
  // Whether the running kernel or product is to fail; if so, loses the context.
  bool FailsWork(int device);
  // For calls that are not allowed while this thread captures: refuses them, and ends the capture.
  CUresult CheckNoCapture(int device);
  void Enqueue(SimulatedStream& stream, std::function<void()> run, bool even_if_lost = false);
  // Enqueues a meeting; `meets` is called once per run, and makes the function that the run polls.
  void EnqueueMeeting(SimulatedStream& stream, std::function<std::function<bool()>()> meets);
  // Does work until the op is done; null: none. Lets other threads in while it waits for ops that they enqueue.
  void Await(int device, const SimulatedOpPtr& op);
  CUresult FreeOn(SimulatedStream& stream, CUdeviceptr address);
  CUresult AllocateOn(int device, size_t bytes, bool begins_later, CUdeviceptr* address);

  // The memory at one end of a copy: of a device, pinned, or other memory of the process.
  struct Side {
    int device = 0;
    uintptr_t address = 0;
    bool is_host = false;
    bool is_pinned = false;
  };
  Side Host(const void* address) const;
  bool CheckSide(const std::string& who, const Side& side, size_t bytes, bool is_enqueued);
  CUresult Copy(const std::string& who, const Side& to, const Side& from, size_t bytes, CUstream stream);
  CUresult Set(CUdeviceptr to, const void* pattern, size_t size, size_t count, CUstream stream);
  bool CheckArguments(const std::string& who, int device,
                      const std::vector<std::vector<std::byte>>& arguments, bool is_enqueued);

  std::vector<SimulatedContext> contexts_;
  uintptr_t next_handle_ = 0x10000;
  std::map<uintptr_t, SimulatedStream> streams_;
  std::map<uintptr_t, SimulatedEvent> events_;
  std::map<uintptr_t, SimulatedGraph> graphs_;
  std::map<uintptr_t, SimulatedGraphExec> execs_;
  std::map<uintptr_t, SimulatedModule> modules_;
  std::map<uintptr_t, SimulatedFunction> functions_;
  std::map<uintptr_t, SimulatedProgram> programs_;
  // ---- cuBLASLt.
  // The product that the descriptors describe; nullopt: they do not fit together, or not the library.
  std::optional<SimulatedProduct> ProductOf(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                            cublasLtMatrixLayout_t d);
  std::map<uintptr_t, int> cublas_handles_;  // their devices
  std::map<uintptr_t, SimulatedOperation> operations_;
  std::map<uintptr_t, SimulatedLayout> layouts_;
  std::map<uintptr_t, SimulatedPreference> preferences_;
  int64_t num_heuristics_ = 0;
  std::map<std::string, std::shared_ptr<SimulatedKernels>> compiled_;  // by the number in the code
  // For all libraries but NCCL (simulated_cublas.cc).
  void EnqueueLibrary(SimulatedStream& stream, LibraryWork work);
  // ---- cuDNN.
  std::optional<SimulatedConvolution> ConvolutionOf(const SimulatedDescriptor& operation);
  std::map<uintptr_t, SimulatedCudnnHandle> cudnn_handles_;
  std::map<uintptr_t, SimulatedDescriptor> cudnn_descriptors_;
  int64_t num_cudnn_heuristics_ = 0;
  // ---- NCCL.
  // The group of this thread; null, with the reason in `result`, if calls on `comm` and `stream` cannot be added to it.
  SimulatedGroup* OpenGroup(NcclComm* comm, CUstream stream, NcclResult& result);
  // Whether the bytes are memory of the communicator's GPU.
  bool IsThere(const SimulatedComm& comm, uintptr_t address, size_t bytes);
  NcclResult AddToGroup(NcclComm* comm, CUstream stream, const SimulatedPart& part);
  NcclResult Exchange(const SimulatedGroup& group);
  // Begins the exchange when it is asked first. Whether it has ended.
  void Leave(NcclComm* handle);
  bool Meets(SimulatedExchange& exchange);
  void Match(SimulatedClique& clique, const SimulatedExchange& exchange);
  void AddUp(SimulatedClique& clique, const SimulatedExchange& exchange);
  std::map<uintptr_t, SimulatedComm> comms_;
  std::map<std::string, SimulatedClique> cliques_;  // by id
  std::map<std::thread::id, SimulatedGroup> groups_;
  int64_t num_ids_ = 0;
};

// The entry of a handle; null if there is none.
template <typename T, typename Handle>
T* FindHandle(std::map<uintptr_t, T>& map, Handle handle) {
  const auto found = map.find(reinterpret_cast<uintptr_t>(handle));
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace meshwork
