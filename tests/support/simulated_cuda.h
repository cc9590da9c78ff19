// GPUs that are simulated in the memory of the process, for tests: a table of the functions of the driver, NVRTC,
// cuBLASLt, cuDNN and NCCL.
//
//   SimulatedCuda cuda({.gpus = {{}, {.architecture = 80}}, .seed = 7, .compiler = &compiler});
//   MESHWORK_ASSIGN_OR_RETURN(const auto context, CudaContext::Create(cuda.api(), 0));
//
// - Work is done late: only when a caller must wait for it, and then in any order that streams and events allow, drawn
//   from the seed. A query whether work is done does some of it. Launches of one graph follow each other.
// - Fresh memory is filled with 0xFF bytes (NaN), freed memory with 0xDD. Copies, fills and pointers among kernels'
//   arguments must lie within one allocation of the right GPU that exists when the work is enqueued and when it is
//   done. Kernels' writes outside an allocation, and to freed memory, are found when it is freed, or at the end.
// - Calls with wrong arguments fail as they do in CUDA. CUDA's default streams are refused (NOT_SUPPORTED), as are
//   allocations while a stream captures. Copies with memory that is not pinned are done as CUDA documents: a copy from
//   it reads at the call, a copy to it has ended when the call returns.
// - A kernel that fails, or a bad address, loses the context: every later call returns the error, but calls that free
//   memory still free it.
// - Memory of GPUs is accessible only within calls of the driver: a host that reads or writes it ends with SIGSEGV.
// - Kernels take arguments from KernelArguments only.
// - NCCL (simulated_nccl.h) is limited to one process. An exchange begins when its stream reaches it and ends when
//   those of its peers have begun; a stream whose peers do not come waits, until its communicator is aborted. Each part
//   of an exchange needs a counterpart of as many bytes; a GPU does one exchange of a communicator at a time. Sums of
//   all ranks (ncclAllReduce) are exchanges, too: all ranks come with as many elements, of one type and reduction. The
//   order of the terms differs from one element to the next.
// - Products of cuBLASLt are summed in double, late as kernels are. Their operands, results and workspace lie in
//   allocations, as aligned as the preferences stated when the algorithm was chosen. An algorithm fits only the
//   descriptors for which it was chosen; some algorithms spoil their workspace.
// - Convolutions of cuDNN follow the same rules. Its heuristic lists forbidden engines before allowed ones.
//
// Findings – mistakes of the caller that CUDA need not notice – are sentences. Findings that no test has taken fail the
// test when the object is destroyed. Thread-safe; one object at a time in a process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/runtime/cuda/cuda_api.h"
#include "support/simulated_compiler.h"

namespace meshwork {

struct SimulatedGpu {
  std::string name = "Simulated GPU";
  int architecture = 90;
  int64_t bytes = int64_t{1} << 30;
  bool has_pools = true;  // the stream-ordered allocator
};

struct SimulatedCudaOptions {
  std::vector<SimulatedGpu> gpus = {{}};
  uint64_t seed = 0;
  SimulatedCompiler* compiler = nullptr;  // must outlive the SimulatedCuda; null: no source compiles
  int driver_version = 13000;
  std::vector<int> nvrtc_architectures = {75, 80, 90, 100};
  bool has_cublas = true;
  int64_t declined_products =
      0;  // cuBLASLt has no algorithm for one in this many products; 0: it has one for all
  bool has_cudnn = true;
  int64_t declined_convolutions = 0;  // the same of cuDNN's engines and convolutions
  int nccl_version = 22809;           // 0: there is no NCCL
};

class SimulatedWorld;

class SimulatedCuda {
 public:
  explicit SimulatedCuda(const SimulatedCudaOptions& options = {});
  SimulatedCuda(const SimulatedCuda&) = delete;
  SimulatedCuda& operator=(const SimulatedCuda&) = delete;
  ~SimulatedCuda();

  const CudaApi& api() const;
  // Opens the same functions as if they were in libraries: libcuda.so.1, libnvrtc.so.13, libcublasLt.so.13
  // and libcudnn_graph.so.9.
  LibraryLoader loader() const;

  // The nth call of `function` from now on ("cuMemAllocAsync"), or of any function, returns `result` and does
  // nothing. Calls that destroy, free, or end a capture or a scope still do so, as in CUDA, which reports errors
  // of earlier work there. NVRTC returns NVRTC_ERROR_INTERNAL_ERROR, cuBLASLt CUBLAS_STATUS_INTERNAL_ERROR,
  // cuDNN CUDNN_STATUS_INTERNAL_ERROR, NCCL ncclSystemError. Replaces an earlier request.
  void FailCall(std::string_view function, int64_t nth, CUresult result = CUDA_ERROR_UNKNOWN);
  void FailAnyCall(int64_t nth, CUresult result = CUDA_ERROR_UNKNOWN);
  // The nth kernel or product that runs from now on, on any GPU, does nothing and fails with `result`, which
  // loses the context. 0: none fails. Replaces an earlier request.
  void FailWork(int64_t nth, CUresult result = CUDA_ERROR_ILLEGAL_ADDRESS);
  // The name of the function whose call has failed on request; "" if none has.
  std::string failed_call() const;
  // Whether the failed call has done its work all the same.
  bool failed_call_released() const;

  int64_t BytesInUse(int ordinal) const;
  // Operations that are enqueued and not done.
  int64_t num_pending() const;
  // Calls of cublasLtMatmul that were accepted.
  int64_t num_products() const;
  // Calls of cudnnBackendExecute that were accepted.
  int64_t num_convolutions() const;
  // Exchanges by NCCL that were put on streams, or captured.
  int64_t num_exchanges() const;
  // Sums by ncclAllReduce that were put on streams, or captured.
  int64_t num_sums() const;
  // From now on NCCL tells all other ranks that this rank is lost. -1: none is.
  void LoseRank(int rank);
  // The error of the last kernel that failed; "" if none has.
  std::string kernel_error() const;

  // Does all remaining work. Returns the findings so far, and forgets them.
  std::vector<std::string> TakeFindings();
  // As TakeFindings, with handles and memory that are not destroyed, freed or released by now.
  std::vector<std::string> TakeLeaks();

 private:
  std::unique_ptr<SimulatedWorld> world_;
};

}  // namespace meshwork
