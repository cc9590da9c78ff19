// Puts the launches of a step on its stream: those of its plan, and of the bodies of loops as often as they run.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_addresses.h"
#include "meshwork/runtime/cuda/cuda_convolutions.h"
#include "meshwork/runtime/cuda/cuda_functions.h"
#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/cuda/cuda_products.h"
#include "meshwork/runtime/cuda/cuda_profiler.h"
#include "meshwork/runtime/cuda/cuda_remotes.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "meshwork/runtime/cuda/cuda_tables.h"

namespace meshwork {

class CudaLauncher {
 public:
  // The parts of the step that launches need. They must outlive the launcher.
  struct Means {
    std::shared_ptr<const CudaStream> stream;
    const CudaFunctions* functions = nullptr;
    const CudaProducts* products = nullptr;
    const CudaConvolutions* convolutions = nullptr;
    CudaOwnMemory own;
    CUdeviceptr workspace = 0;
    std::byte* predicate = nullptr;    // a byte of pinned memory
    CudaProfiler* profiler = nullptr;  // null: nothing is measured
    bool blocking = false;             // each launch is waited for
    CudaRemotes* remotes = nullptr;    // null: there is one domain
  };
  explicit CudaLauncher(Means means) : means_(std::move(means)) {}

  // Launches CudaLevel::once of the level and the bodies in it. Errors: those of a launch, with the node's name; if
  // launches block, also those of the run of a kernel (FaultOfLaunch).
  absl::Status EnqueueOnce(const CudaLevel& level, const CudaBases& bases);
  // Launches the actions of the level; `tables` are those of the step. If the level reads_host, waits for the stream
  // or for other domains on the way. Errors: the same; those of CudaRemotes.
  absl::Status Enqueue(const CudaLevel& level, const CudaBases& bases, const CudaTables& tables) {
    return Enqueue(level, 0, level.actions.size(), bases, tables);
  }
  // The same for actions [begin, end).
  absl::Status Enqueue(const CudaLevel& level, size_t begin, size_t end, const CudaBases& bases,
                       const CudaTables& tables);
  // Returns when all work on the stream is done. Errors: that of the work; another domain is lost.
  absl::Status Await();

  // The first difference between replicas that were compared since ForgetDifference, or OK.
  const absl::Status& difference() const { return difference_; }
  void ForgetDifference() { difference_ = absl::OkStatus(); }

 private:
  // Waits for the action, which was put on the stream.
  absl::Status WaitFor(const CudaLevel& level, const CudaAction& action);
  absl::Status EnqueueLoop(const LoopLaunch& loop, const CudaBases& bases, const CudaTables& tables);
  absl::Status Launch(const CudaLevel& level, const KernelLaunch& launch, const CudaBases& bases);
  absl::Status Launch(const CudaLevel& level, const ProductLaunch& launch, const CudaBases& bases);
  absl::Status Launch(const CudaLevel& level, const ConvolutionLaunch& launch, const CudaBases& bases);
  absl::Status Launch(const CudaLevel& level, const PartsLaunch& launch, const CudaBases& bases,
                      const CudaTables& tables);
  absl::Status Launch(const TransferLaunch& launch, const CudaTables& tables);
  // Adds the name of the first node to the error of a launch, unless an earlier launch may be the one that failed.
  absl::Status NamingNode(const absl::Status& status, const CudaLevel& level,
                          const std::vector<ProfiledNode>& nodes) const;
  absl::Status Launch(const RemoteLaunch& launch, const CudaBases& bases);
  // The address on the GPU in this step, in a storage or in scratch memory.
  CUdeviceptr AddressOf(const DeviceAddress& address, const CudaBases& bases) const;
  absl::StatusOr<bool> IsTrue(CUdeviceptr predicate);
  // Notes the first difference.
  absl::Status Compare(const CudaLevel& level, const CompareStep& compare, const CudaBases& bases);

  const Means means_;
  absl::Status difference_;
};

}  // namespace meshwork
