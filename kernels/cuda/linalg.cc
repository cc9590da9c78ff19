// Decompositions of small matrices: a thread has one matrix (triangular_solve: one column of one), as on the CPU
// (ops/linalg.cc), in the result's memory.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/kernels/cuda/families.h"
#include "meshwork/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

int64_t MatricesOf(const Type& x) { return NumElements(Shape(x.shape.begin(), x.shape.end() - 2)); }

CudaKernel Cholesky(const OpRow& row, const KernelSpec& spec) {
  const Type& x = spec.results[0].local;
  return ForEach(
      TextOf(row, spec), MatricesOf(x),
      fmt::format("CholeskyFactor(a0 + i * {0} * {0}, {0}, r0 + i * {0} * {0});\n", Whole(x.shape.back())));
}

CudaKernel TriangularSolve(const OpRow& row, const KernelSpec& spec) {
  const Type& b = spec.results[0].local;
  const int64_t n = b.shape.end()[-2], columns = b.shape.back();
  return ForEach(
      TextOf(row, spec), MatricesOf(b) * columns,
      fmt::format(
          "const Index matrix = i / {1}, column = i % {1};\n"
          "SolveColumn<{2}, {3}, {4}>(a0 + matrix * {0} * {0}, a1 + matrix * {0} * {1} + column, {0}, {1}, "
          "r0 + matrix * {0} * {1} + column);\n",
          Whole(n), Whole(std::max<int64_t>(columns, 1)), spec.attrs.Get<bool>("lower"),
          spec.attrs.Get<bool>("transpose_a"), spec.attrs.Get<bool>("unit_diagonal")));
}

CudaKernel Qr(const OpRow& row, const KernelSpec& spec) {
  const Type& x = spec.operands[0].local;
  const int64_t m = x.shape.end()[-2], n = x.shape.back(), k = std::min(m, n);
  return ForEach(
      TextOf(row, spec), MatricesOf(x),
      fmt::format(
          "Decompose(a0 + i * {0} * {1}, (Index){0}, (Index){1}, r0 + i * {0} * {2}, r1 + i * {2} * {1});\n",
          Whole(m), Whole(n), Whole(k)));
}

}  // namespace

std::span<const Generator> LinalgKernels() {
  static constexpr Generator kGenerators[] = {
      {"cholesky", Cholesky}, {"triangular_solve", TriangularSolve}, {"qr", Qr}};
  return kGenerators;
}

}  // namespace meshwork::cuda
