// The remote operations of a step by NCCL, on a stream of their own:
//
//   compute  ──packs──●─────other kernels─────●──sums──▶
//                     ╰──exchange (NCCL)──────╯            events at the dots
//
// All of it may be captured. Each operation first notes its number in pinned memory, so that an error can name the
// operation that other domains did not reach.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_remotes.h"
#include "meshwork/runtime/cuda/nccl_group.h"

namespace meshwork {

// `group` is of the domains of `transport`, which must outlive it. Errors: those of CudaStream::Create.
absl::StatusOr<std::unique_ptr<CudaRemotes>> MakeNcclRemotes(std::shared_ptr<const CudaContext> context,
                                                             std::shared_ptr<NcclGroup> group,
                                                             Transport& transport);

}  // namespace meshwork
