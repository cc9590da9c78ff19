// Products of matrices by cuBLASLt.
//
//   CudaProducts products(context);
//   const ProductAlignment alignment{.a = 256, .b = 256, .d = 64};
//   MESHWORK_ASSIGN_OR_RETURN(const std::optional<size_t> number, products.Add(product, alignment, MatmulPrecision::kFull));
//   MESHWORK_RETURN_IF_ERROR(products.Launch(*stream, *number, {a, b, d}, workspace));   // also while the stream captures
//
// An algorithm is chosen once, when a product is added, by cuBLASLt's own heuristic. Only algorithms are chosen that
// give the same numbers in each run: if a sum is cut along k, its parts are added in a fixed order, in the type of
// the sum. f32 and bf16 are summed in f32, f64 in f64. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ops/kernels/cuda/cuda_product.h"
#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "meshwork/runtime/exec/executor_options.h"

namespace meshwork {

class CudaProducts {
 public:
  explicit CudaProducts(std::shared_ptr<const CudaContext> context);
  CudaProducts(const CudaProducts&) = delete;
  CudaProducts& operator=(const CudaProducts&) = delete;
  // REQUIRES: no product of it is left on any stream.
  ~CudaProducts();

  // Returns the number of the product; equal products have the same. nullopt: there is no cuBLASLt, or it has no
  // algorithm for the product. Errors: what cuBLASLt reports. `precision`: for f32, other types ignore it.
  absl::StatusOr<std::optional<size_t>> Add(const CudaProduct& product, const ProductAlignment& alignment,
                                            MatmulPrecision precision);

  // The size of a workspace for any of the products; one product runs at a time.
  int64_t workspace_bytes() const { return workspace_bytes_; }

  struct Addresses {
    CUdeviceptr a = 0, b = 0, d = 0;
  };
  // CHECKs that the addresses are as aligned as Add was told.
  void CheckAlignment(size_t number, const Addresses& addresses) const;
  // Puts the product on the stream. The workspace has workspace_bytes() and is 256-byte aligned. Error: what cuBLASLt
  // reports. REQUIRES: the addresses are as aligned as Add was told.
  absl::Status Launch(const CudaStream& stream, size_t number, const Addresses& addresses,
                      CUdeviceptr workspace) const;

 private:
  struct Descriptors;
  struct Entry {
    CudaProduct product;
    ProductAlignment alignment;
    MatmulPrecision precision = MatmulPrecision::kFull;
    UnlessForked<Descriptors> descriptors;  // null: cuBLASLt has no algorithm
  };

  absl::StatusOr<UnlessForked<Descriptors>> Describe(const CudaProduct& product,
                                                     const ProductAlignment& alignment,
                                                     MatmulPrecision precision);
  absl::Status ToStatus(cublasStatus_t status, const CudaProduct& product, std::string_view what) const;

  const std::shared_ptr<const CudaContext> context_;
  cublasLtHandle_t handle_ = nullptr;
  std::vector<Entry> entries_;
  int64_t workspace_bytes_ = 0;
};

// Whether TF32 holds the factors of the node exactly: they are bf16 values that were widened to f32 because sums of
// them are pending (ir/local.h), and that were only moved since.
bool FactorsFitTf32(const Graph& graph, int node);

}  // namespace meshwork
