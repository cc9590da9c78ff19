// The memory of a GPU as the runtime sees it (runtime/exec/memory.h).
//
//   MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<Memory> memory, MakeCudaMemory(context));
//   const DTensor x = Pack(tensor, layout, memory);
//
// Uploads and downloads go through pinned memory, in pieces: elements that lie side by side on the GPU are one copy.
// There is room for two pieces, so that one is transferred while the process copies the other one; large pieces whose
// elements lie side by side in the process, too, are copied by several threads (runtime/cuda/host_copier.h). They have
// a stream of their own, which waits for no step.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/exec/memory.h"

namespace meshwork {

struct CudaMemoryOptions {
  // Pinned memory, for two pieces, which is allocated by the first copy. At least two elements.
  int64_t staging_bytes = int64_t{16} << 20;
};

// Its allocations are 256-byte aligned and complete on return, so that all streams may use them; the last reference to
// one must not be dropped before work that uses it is done. They keep the context. Allocate throws CudaBadAlloc.
// Thread-safe for different allocations; copies take turns. Errors: what CUDA reports.
absl::StatusOr<std::shared_ptr<Memory>> MakeCudaMemory(std::shared_ptr<const CudaContext> context,
                                                       const CudaMemoryOptions& options = {});

// There is no memory on the GPU, or it failed. what() says which, and how much was free.
class CudaBadAlloc : public std::bad_alloc {
 public:
  explicit CudaBadAlloc(const absl::Status& status) : status_(status), what_(MessageOf(status)) {}
  const absl::Status& status() const { return status_; }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  absl::Status status_;
  std::string what_;
};

}  // namespace meshwork
