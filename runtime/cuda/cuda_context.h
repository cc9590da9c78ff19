// The primary context of a GPU, which all CUDA libraries of the process share.
//
//   MESHWORK_ASSIGN_OR_RETURN(const auto context, CudaContext::Create(*api, 0));
//   const CudaContext::Scope scope(*context);   // calls of the table from here on are of this GPU
//
// Classes of this room make their context current themselves and leave the thread's as it was. They hold a reference to
// it, so that it is given back last. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/runtime/cuda/cuda_api.h"

namespace meshwork {

// How many GPUs there are, at least one. Error: there is none (FAILED_PRECONDITION).
absl::StatusOr<int> CountGpus(const CudaApi& api);

class CudaContext {
 public:
  // Errors: there is no such GPU (INVALID_ARGUMENT); it has no stream-ordered allocator (FAILED_PRECONDITION); what
  // CUDA reports. Freed memory stays with the process, so that later allocations are quick.
  static absl::StatusOr<std::shared_ptr<const CudaContext>> Create(const CudaApi& api, int ordinal);
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext();

  const CudaApi& api() const { return api_; }
  int ordinal() const { return ordinal_; }
  CUdevice device() const { return device_; }
  CUcontext handle() const { return handle_; }
  const std::string& name() const { return name_; }    // "NVIDIA H100 80GB HBM3"
  const std::string& where() const { return where_; }  // in messages: "GPU 0 (NVIDIA H100 80GB HBM3)"
  int architecture() const { return architecture_; }   // 90 is sm_90
  int64_t most_shared_bytes() const { return most_shared_bytes_; }  // of a block that asks for it

  struct MemoryInfo {
    int64_t free_bytes = 0;
    int64_t total_bytes = 0;
  };
  absl::StatusOr<MemoryInfo> GetMemoryInfo() const;

  // The place of the GPU in its machine: "0000:18:00.0".
  absl::StatusOr<std::string> GetPciBusId() const;

  // Waits for all work on the GPU. Error: that of the work.
  absl::Status Synchronize() const;
  // Gives freed memory back to the driver, for other processes.
  absl::Status Trim() const;

  // Whether this is the process that made the context. In a child of a fork a Scope has an error, and destructors do
  // not call the driver, as its state is the parent's.
  bool is_here() const { return made_.is_here(); }

  // CudaStatus(…), in which this GPU is the place.
  absl::Status ToStatus(CUresult result, std::string_view what) const;
  // The first error given to ToStatus that loses the context (runtime/cuda/cuda_status.h), as a kernel has failed.
  // CUDA_SUCCESS: there was none.
  CUresult lost() const { return lost_; }

  // Makes the context current for this thread; the destructor restores the previous one. status(): whether that
  // succeeded. If not, calls of the table do nothing useful, and in a child of a fork they must not be made.
  class Scope {
   public:
    explicit Scope(const CudaContext& context);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();
    const absl::Status& status() const { return status_; }

   private:
    const CudaApi& api_;
    absl::Status status_;
  };

 private:
  CudaContext(const CudaApi& api, int ordinal) : api_(api), ordinal_(ordinal) {}
  absl::Status Open();

  const ForkMark made_;
  const CudaApi& api_;
  const int ordinal_;
  CUdevice device_ = 0;
  CUcontext handle_ = nullptr;
  std::string name_, where_;
  int architecture_ = 0, most_shared_bytes_ = 0;
  mutable std::atomic<CUresult> lost_{CUDA_SUCCESS};
};

}  // namespace meshwork
