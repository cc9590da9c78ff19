// The GPUs of this machine.
//
//   absl::StatusOr<Gpus> gpus = ListGpus();
//   gpus->gpus[0].name           "NVIDIA H100 80GB HBM3"
//   gpus->gpus[0].architecture   90, also called sm_90
//
// Nothing links the CUDA driver: it is opened when a function here is called first. So one program runs on machines
// with and without GPUs. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwork {

struct CudaApi;

// UNIMPLEMENTED: this build has no CUDA.
absl::Status NoCuda();

struct GpuInfo {
  int ordinal = 0;
  std::string name;
  int architecture = 0;  // 10 * major + minor compute capability
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // at the time of the call
};

struct Gpus {
  std::string driver_version;                  // the newest CUDA that the driver supports: "13.0"
  absl::StatusOr<std::string> cublas_version;  // "13.1.0"; or why products are made without cuBLASLt
  absl::StatusOr<std::string> cudnn_version;   // "9.19.0"; or why convolutions are made without cuDNN
  absl::StatusOr<std::string> nccl_version;    // "2.28.9"; or why data between GPUs goes through the process
  std::vector<GpuInfo> gpus;                   // by ordinal; at least one
};

// Whether this build can use GPUs. It says nothing of the machine.
bool HasCuda();

// Makes a context on each GPU to ask for its free memory, and gives it back. Errors: this build has no CUDA
// (UNIMPLEMENTED); there is no driver, it is too old, or there is no GPU (FAILED_PRECONDITION); what CUDA reports.
absl::StatusOr<Gpus> ListGpus();
// The same by another table of functions.
absl::StatusOr<Gpus> ListGpus(const CudaApi& api);

}  // namespace meshwork
