// The tables that kernels of transfers (ops/kernels/cuda/transfers.h) and of parts (ops/kernels/cuda/parts.h) read, in
// the memory of the GPU: for all launches of a step, with its addresses.
//
// Thread-safe once they are made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_addresses.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_functions.h"
#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "meshwork/runtime/cuda/kernel_arguments.h"

namespace meshwork {

class CudaTables {
 public:
  // Makes the tables for `root` and the bodies in it, which must outlive the tables and not move. `bases`: of the
  // root. Waits for the stream. Errors: those of CudaBuffer::Allocate and CopyToDevice. CHECKs that pointers are
  // aligned as `functions` need.
  static absl::StatusOr<CudaTables> Create(const std::shared_ptr<const CudaStream>& stream,
                                           const CudaLevel& root, const CudaBases& bases,
                                           const CudaOwnMemory& own, const CudaFunctions& functions);

  // Adds the arguments by which the kernel finds its launch's section of the tables. REQUIRES: the launch is one of
  // `root`.
  void AddArguments(const TransferLaunch& launch, KernelArguments& arguments) const;
  void AddArguments(const PartsLaunch& launch, KernelArguments& arguments) const;

 private:
  class Maker;
  CudaTables() = default;

  std::map<const TransferLaunch*, int64_t> first_transfers_;
  std::map<const PartsLaunch*, int64_t> first_parts_;
  CudaBuffer transfers_, numbers_, parts_;
};

}  // namespace meshwork
