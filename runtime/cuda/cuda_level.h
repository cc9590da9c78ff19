// A CudaLevel is a step plan, or the body of a loop in it, as a list of launches for one GPU. Addresses are symbolic:
// each is a storage of the plan and an offset in bytes.
//
//   StepPlan ──MakeLevel──▶ launches ──CudaStep──▶ addresses, a stream, a graph
//
// Plain data, independent of where memory is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "meshwork/ops/kernels/cuda/cuda_convolution.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/ops/kernels/cuda/cuda_product.h"
#include "meshwork/ops/kernels/cuda/parts.h"
#include "meshwork/runtime/cuda/storage_map.h"
#include "meshwork/runtime/exec/profile_row.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

struct DeviceAddress {
  // Scratch memory of CudaLevel::scratch_bytes, which launches use one after the other.
  static constexpr int kScratch = -2;

  int storage = -1;
  int64_t offset = 0;  // bytes
};

// One launch of a kernel of a row, or of a group of them.
struct KernelLaunch {
  size_t kernel = 0;  // of CudaKernels
  std::vector<DeviceAddress> pointers = {};
  std::vector<long long> blocks = {};    // its block arguments
  int64_t grid = 0;                      // in blocks: kernels of one text may differ in it
  std::vector<ProfiledNode> nodes = {};  // that it computes, at least one
};

// One launch of an op on many tensors.
struct PartsLaunch {
  struct Part {
    std::vector<DeviceAddress> pointers = {};  // operands, then results
    int64_t elements = 0;
    CudaTableRows table = {};
  };
  size_t kernel = 0;                       // of CudaKernels
  std::vector<Part> parts;                 // not empty; each has elements
  std::vector<DeviceAddress> common = {};  // operands that are one for all parts
  int64_t per_block = 0, blocks = 0;       // elements of a block; of the grid
  int64_t BlocksOf(const Part& part) const { return (part.elements + per_block - 1) / per_block; }
  std::vector<ProfiledNode> nodes = {};  // that it computes, at least one
};

// One product of matrices by a library.
struct ProductLaunch {
  size_t product = 0;  // the number that TakeProduct gave
  DeviceAddress a = {}, b = {}, d = {};
  std::vector<ProfiledNode> nodes = {};  // that it computes, at least one
};

// One convolution by a library. Its filter may lie in scratch memory, in the library's order of dims.
struct ConvolutionLaunch {
  size_t convolution = 0;  // the number that TakeConvolution gave
  DeviceAddress x = {}, w = {}, y = {};
  DeviceAddress workspace = {};          // scratch memory of the library
  std::vector<ProfiledNode> nodes = {};  // that it computes, at least one
};

// One launch of a kernel that moves data.
struct TransferLaunch {
  size_t kernel = 0;                     // of CudaKernels
  std::vector<Transfer> transfers = {};  // not empty; each moves something
  // Per transfer: its target, then its sources.
  std::vector<std::vector<DeviceAddress>> addresses = {};
  int64_t blocks = 0;  // of the grid
  CopyStep::Kind kind = CopyStep::Kind::kCollective;
  int node = -1;             // of a collective; otherwise -1
  std::string subject = {};  // without a node, what moves: input "x", output "loss", variable "w"
  int unpacks = -1;          // the only output that needs the launch; -1: none
};

// Compares replicas (CopyStep::Kind::kCompare), on the host.
struct CompareStep {
  const CopyStep* step = nullptr;  // of the plan
};

// Data moves to other domains and from them, as its step says.
struct RemoteLaunch {
  const RemoteStep* step = nullptr;  // of the plan; never the fence
  std::vector<DeviceAddress> sends = {}, receives = {};
  size_t number = 0;  // of CudaRemotes (runtime/cuda/cuda_remotes.h), which PrepareRemotes gives
};

struct CudaLevel;

struct LoopLaunch {
  NestedStep::Kind kind = NestedStep::Kind::kRepeat;
  int64_t length = 0;
  DeviceAddress predicate = {};
  std::vector<DeviceAddress> arguments = {};  // those of the bodies, as addresses of this level
  std::vector<CudaLevel> bodies;
  int node = -1;
};

using CudaAction = std::variant<KernelLaunch, PartsLaunch, ProductLaunch, ConvolutionLaunch, TransferLaunch,
                                LoopLaunch, CompareStep, RemoteLaunch>;

// All kernels of a step, each once.
class CudaKernels {
 public:
  // The number of the kernel; a new one unless there is one of its name.
  size_t Add(CudaKernel kernel);
  const std::vector<CudaKernel>& all() const { return kernels_; }

 private:
  std::vector<CudaKernel> kernels_;
};

struct CudaLevel {
  const StepPlan* plan = nullptr;
  std::vector<CudaAction> once;  // launched once, as they depend on no argument
  std::vector<CudaAction> actions;
  StorageMap map;             // of its plan; those of bodies were moved into their levels
  int64_t scratch_bytes = 0;  // that its launches need, including those of bodies
  // The process takes part: it reads the predicate of a loop, compares replicas, or carries data to other domains. So
  // no graph can hold the whole level.
  bool reads_host = false;
};

// Whether the process takes part in the action, so that no graph can hold it.
bool ReadsHost(const CudaAction& action, bool remotes_read_host);

// The alignment of the addresses of a product's operands and result, in bytes.
struct ProductAlignment {
  int64_t a = 0, b = 0, d = 0;
  bool operator==(const ProductAlignment&) const = default;
};
// Offers a product of the node to a library. Returns the number of the product; nullopt: the row's own kernel
// computes it.
using TakeProduct = std::function<std::optional<size_t>(
    const StepPlan& plan, int node, const CudaProduct& product, const ProductAlignment& alignment)>;

// The same of a convolution, all of whose addresses are multiples of `alignment` bytes.
struct TakenConvolution {
  size_t number = 0;
  int64_t workspace_bytes = 0;
};
using TakeConvolution = std::function<std::optional<TakenConvolution>(
    const StepPlan& plan, int node, const CudaConvolution& convolution, int64_t alignment)>;

struct LevelOptions {
  bool fuse = false;                   // groups of steps are one launch each (runtime/cuda/cuda_fusion.h)
  TakeProduct take_product = nullptr;  // null: no library takes any
  TakeConvolution take_convolution = nullptr;
  int64_t shared_bytes = 0;       // dynamic shared memory that a block may have
  bool remotes_read_host = true;  // the process carries data to other domains (CudaRemotes::is_captured)
};

// Kernels are added to `kernels`. Keeps pointers into the plan. REQUIRES: every row has a CUDA kernel; the plan calls
// no cross-device op.
CudaLevel MakeLevel(const StepPlan& plan, CudaKernels& kernels, const LevelOptions& options = {});

}  // namespace meshwork
