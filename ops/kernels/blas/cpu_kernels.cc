#include "meshwork/ops/kernels/blas/cpu_kernels.h"

#include <algorithm>

#include "meshwork/ops/kernels/blas/factories.h"

namespace meshwork {

std::span<const LibraryKernel> LibraryKernels() {
  static constexpr LibraryKernel kKernels[] = {
      {"matmul", MatmulCpu},
      {"matmul_q", MatmulQCpu},
      {"conv", ConvCpu},
      {"conv_input_grad", ConvInputGradCpu},
      {"conv_filter_grad", ConvFilterGradCpu},
      {"attention", AttentionCpu},
      {"attention_grad_q", AttentionGradQCpu},
      {"attention_grad_kv", AttentionGradKvCpu},
      {"cholesky", CholeskyCpu},
      {"triangular_solve", TriangularSolveCpu},
      {"qr", QrCpu},
  };
  return kKernels;
}

KernelFactory CpuKernelOf(const OpRow& row) {
  if (row.cpu != nullptr) return row.cpu;
  const std::span<const LibraryKernel> all = LibraryKernels();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const LibraryKernel& k) { return k.op == row.name; });
  return found == all.end() ? nullptr : found->cpu;
}

}  // namespace meshwork
