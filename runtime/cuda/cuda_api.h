// The functions of the CUDA driver, of NVRTC, of cuBLASLt, of cuDNN and of NCCL that meshwork calls, in one table of
// pointers.
//
//   MESHWORK_ASSIGN_OR_RETURN(const CudaApi* const api, LoadCudaApi());
//   api->cuMemAllocAsync(&address, bytes, stream);
//
// Nothing links these libraries: they are opened at run time, so one program runs with and without a driver. Tests put
// their own functions into the table (tests/support/simulated_cuda.h). All classes of this room take a `const CudaApi&`
// and keep a reference: the table must outlive them. Only builds with CUDA (MESHWORK_HAVE_CUDA) have this header's
// types.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cudnn_api.h"
#include "meshwork/runtime/cuda/nccl_api.h"

// F(name) for each function. cuda.h defines many names as those of a version, cuMemFree as cuMemFree_v2: the fields of
// the table and the symbols that are looked up have these names, and callers write cuMemFree.
#define MESHWORK_CUDA_DRIVER_FUNCTIONS(F) \
  F(cuInit)                               \
  F(cuDriverGetVersion)                   \
  F(cuGetErrorName)                       \
  F(cuGetErrorString)                     \
  F(cuDeviceGetCount)                     \
  F(cuDeviceGet)                          \
  F(cuDeviceGetName)                      \
  F(cuDeviceGetAttribute)                 \
  F(cuDeviceGetPCIBusId)                  \
  F(cuDeviceTotalMem)                     \
  F(cuDeviceGetDefaultMemPool)            \
  F(cuMemPoolSetAttribute)                \
  F(cuMemPoolTrimTo)                      \
  F(cuDevicePrimaryCtxRetain)             \
  F(cuDevicePrimaryCtxRelease)            \
  F(cuCtxPushCurrent)                     \
  F(cuCtxPopCurrent)                      \
  F(cuCtxSynchronize)                     \
  F(cuMemGetInfo)                         \
  F(cuMemAlloc)                           \
  F(cuMemFree)                            \
  F(cuMemAllocAsync)                      \
  F(cuMemFreeAsync)                       \
  F(cuMemHostAlloc)                       \
  F(cuMemFreeHost)                        \
  F(cuMemcpyHtoDAsync)                    \
  F(cuMemcpyDtoHAsync)                    \
  F(cuMemcpyDtoDAsync)                    \
  F(cuMemcpyPeerAsync)                    \
  F(cuMemsetD8Async)                      \
  F(cuMemsetD32Async)                     \
  F(cuStreamCreate)                       \
  F(cuStreamDestroy)                      \
  F(cuStreamQuery)                        \
  F(cuStreamSynchronize)                  \
  F(cuStreamWaitEvent)                    \
  F(cuStreamBeginCapture)                 \
  F(cuStreamEndCapture)                   \
  F(cuStreamIsCapturing)                  \
  F(cuEventCreate)                        \
  F(cuEventDestroy)                       \
  F(cuEventRecord)                        \
  F(cuEventQuery)                         \
  F(cuEventSynchronize)                   \
  F(cuEventElapsedTime)                   \
  F(cuModuleLoadData)                     \
  F(cuModuleUnload)                       \
  F(cuModuleGetFunction)                  \
  F(cuFuncSetAttribute)                   \
  F(cuLaunchKernel)                       \
  F(cuGraphGetNodes)                      \
  F(cuGraphInstantiate)                   \
  F(cuGraphLaunch)                        \
  F(cuGraphExecDestroy)                   \
  F(cuGraphDestroy)

#define MESHWORK_NVRTC_FUNCTIONS(F) \
  F(nvrtcVersion)                   \
  F(nvrtcGetErrorString)            \
  F(nvrtcGetNumSupportedArchs)      \
  F(nvrtcGetSupportedArchs)         \
  F(nvrtcCreateProgram)             \
  F(nvrtcDestroyProgram)            \
  F(nvrtcCompileProgram)            \
  F(nvrtcGetProgramLogSize)         \
  F(nvrtcGetProgramLog)             \
  F(nvrtcGetCUBINSize)              \
  F(nvrtcGetCUBIN)                  \
  F(nvrtcGetPTXSize)                \
  F(nvrtcGetPTX)

#define MESHWORK_CUBLAS_FUNCTIONS(F)      \
  F(cublasLtGetVersion)                   \
  F(cublasLtGetStatusName)                \
  F(cublasLtCreate)                       \
  F(cublasLtDestroy)                      \
  F(cublasLtMatmulDescCreate)             \
  F(cublasLtMatmulDescDestroy)            \
  F(cublasLtMatmulDescSetAttribute)       \
  F(cublasLtMatrixLayoutCreate)           \
  F(cublasLtMatrixLayoutDestroy)          \
  F(cublasLtMatrixLayoutSetAttribute)     \
  F(cublasLtMatmulPreferenceCreate)       \
  F(cublasLtMatmulPreferenceDestroy)      \
  F(cublasLtMatmulPreferenceSetAttribute) \
  F(cublasLtMatmulAlgoGetHeuristic)       \
  F(cublasLtMatmul)

namespace meshwork {

#define MESHWORK_CUDA_FIELD(name) decltype(&::name) name = nullptr;
// A function of a library whose header is not needed.
#define MESHWORK_CUDA_TYPED_FIELD(result, name, parameters) result(*name) parameters = nullptr;
struct CudaApi {
  MESHWORK_CUDA_DRIVER_FUNCTIONS(MESHWORK_CUDA_FIELD)
  // Only to be called if nvrtc_status is OK.
  MESHWORK_NVRTC_FUNCTIONS(MESHWORK_CUDA_FIELD)
  // Only to be called if cublas_status is OK.
  MESHWORK_CUBLAS_FUNCTIONS(MESHWORK_CUDA_FIELD)
  // Only to be called if cudnn_status is OK.
  MESHWORK_CUDNN_FUNCTIONS(MESHWORK_CUDA_TYPED_FIELD)
  // Only to be called if nccl_status is OK.
  MESHWORK_NCCL_FUNCTIONS(MESHWORK_CUDA_TYPED_FIELD)

  int driver_version = 0;      // the newest CUDA that the driver supports, as cuda.h counts: 13000 is 13.0
  int nvrtc_version = 0;       // the same of NVRTC
  std::string nvrtc_build;     // which build of that version it is (runtime/cuda/build_id.h); "": unknown
  absl::Status nvrtc_status;   // why there is no NVRTC
  int cublas_version = 0;      // of cuBLASLt: 130001 is 13.0.1; 0: there is none
  absl::Status cublas_status;  // why there is no cuBLASLt
  int cudnn_version = 0;       // 91900 is 9.19.0; 0: there is none
  absl::Status cudnn_status;   // why there is no cuDNN
  int nccl_version = 0;        // 22809 is 2.28.9; 0: there is none
  absl::Status nccl_status;    // why there is no NCCL
  std::string code_folder;     // where compiled code is kept (runtime/cuda/code_cache.h); "": nowhere
  // Kernels are compiled by this many threads (runtime/cuda/compile_kernels.h). `report` is called with a line,
  // without a newline, if that takes longer than `report_after`, and if a library is missing. Null: nothing is
  // reported.
  int compile_threads = 1;
  std::chrono::milliseconds report_after = std::chrono::milliseconds(2000);
  std::function<void(std::string_view line)> report = nullptr;
};
#undef MESHWORK_CUDA_TYPED_FIELD
#undef MESHWORK_CUDA_FIELD

// Opens libraries and finds symbols in them: dlopen and dlsym, or functions of a test.
struct LibraryLoader {
  std::function<void*(const std::string& file)> open;                   // null: there is none
  std::function<void*(void* library, const std::string& symbol)> find;  // null: there is none
  std::function<std::string()> error;                                   // of the last `open` that failed
};
LibraryLoader SystemLoader();

// The oldest driver that is used, as cuda.h counts.
inline constexpr int kOldestCudaDriver = 12000;

// "13.0" of 13000.
std::string CudaVersionToString(int version);

// "13.0.1" of 130001.
std::string CublasVersionToString(int version);

// "9.19.0" of 91900.
std::string CudnnVersionToString(int version);

// Opens the driver, NVRTC, cuBLASLt, cuDNN and NCCL, and calls cuInit. Takes the newest NVRTC and cuBLASLt that fit
// this driver. A library other than the driver may be missing, or switched off by MESHWORK_CUDNN=off or
// MESHWORK_NCCL=off in the environment: nvrtc_status, cublas_status, cudnn_status or nccl_status says so then.
// Libraries stay open. Errors (FAILED_PRECONDITION): there is no driver; it is too old, or lacks a function; cuInit
// fails, as on a machine without a GPU.
absl::StatusOr<CudaApi> LoadCudaApi(const LibraryLoader& loader);

// The table of this process: loaded by the first call, whose error all calls return. It alone keeps compiled code, in
// the CodeFolder of this process's environment (runtime/cuda/code_cache.h), compiles by several threads and reports to
// standard error (SetUpCompiling). Thread-safe.
absl::StatusOr<const CudaApi*> LoadCudaApi();

// Reports that a step is made without a library, and why, unless the environment has switched the library off.
// Reports each library once in this process. Thread-safe.
void ReportMissing(const CudaApi& api, const std::string& library, const absl::Status& why);

// A table that compiles, for a machine that may have no driver: the newest NVRTC is in it, and no other function. Error
// (FAILED_PRECONDITION): there is no NVRTC.
absl::StatusOr<CudaApi> LoadCudaCompiler(const LibraryLoader& loader);

// Sets `api` up so that code is kept in the CodeFolder of this process's environment, kernels are compiled by a
// thread for each core that the process may use, and reports go to standard error.
void SetUpCompiling(CudaApi& api);

}  // namespace meshwork
