// Decompositions of matrices: a block has one matrix, in the result's memory; for triangular_solve, up to 32 columns of
// a matrix. Blocks of small matrices are one warp, so that many run at a time. Large matrices are better decomposed by
// all cores of the host, as a session's initial values are (session/session_graphs.h).
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

constexpr int64_t kWarp = 32;

int64_t MatricesOf(const Type& x) { return NumElements(Shape(x.shape.begin(), x.shape.end() - 2)); }

// The number of threads for a matrix [m,n]: a multiple of a warp, and a power of two.
int64_t ThreadsOf(int64_t m, int64_t n) {
  constexpr int64_t kElements = 64, kMost = 1024;  // elements of a thread
  int64_t threads = kWarp;
  while (threads < kMost && threads * kElements < m * n) threads *= 2;
  return threads;
}

// A kernel of `blocks` blocks, or none if the result is empty; in `body`, i is the number of the block.
CudaKernel ForEachBlock(KernelText text, int64_t blocks, int64_t threads, std::string_view body) {
  const bool is_empty =
      std::any_of(text.in.begin(), text.in.end(), [](const Type& t) { return t.num_elements() == 0; });
  text.blocks = is_empty ? 0 : blocks;
  text.threads = threads;
  text.body = Indented(fmt::format("const Index i = (Index)blockIdx.x;\n{}", body));
  return Finish(text);
}

// Declares shared memory in which the threads of a block add up.
std::string Room(const Type& type, int64_t threads) {
  return fmt::format("__shared__ {} shared[{}];\n", ComputeName(type.dtype), threads);
}

CudaKernel Cholesky(const OpRow& row, const KernelSpec& spec) {
  const Type& x = spec.results[0].local;
  const int64_t n = x.shape.back(), threads = ThreadsOf(n, n);
  return ForEachBlock(
      TextOf(row, spec), MatricesOf(x), threads,
      fmt::format("CholeskyFactor<{1}>(a0 + i * {0} * {0}, (Index){0}, r0 + i * {0} * {0});\n", Whole(n),
                  threads));
}

CudaKernel TriangularSolve(const OpRow& row, const KernelSpec& spec) {
  const Type& b = spec.results[0].local;
  const int64_t n = b.shape.end()[-2], columns = b.shape.back();
  int64_t lanes = 1;
  while (lanes < kWarp && lanes < columns) lanes *= 2;
  const int64_t tiles = std::max<int64_t>(1, (columns + lanes - 1) / lanes);
  const int64_t threads = ThreadsOf(n, lanes);
  return ForEachBlock(
      TextOf(row, spec), MatricesOf(b) * tiles, threads,
      fmt::format(
          "const Index matrix = i / {2}, column = i % {2} * {3};\n"
          "SolveColumns<{4}, {3}, {5}, {6}, {7}>(a0 + matrix * {0} * {0}, a1 + matrix * {0} * {1}, (Index){0}, "
          "(Index){1}, column, r0 + matrix * {0} * {1});\n",
          Whole(n), Whole(columns), Whole(tiles), lanes, threads, spec.attrs.Get<bool>("lower"),
          spec.attrs.Get<bool>("transpose_a"), spec.attrs.Get<bool>("unit_diagonal")));
}

CudaKernel Qr(const OpRow& row, const KernelSpec& spec) {
  const Type& x = spec.operands[0].local;
  const int64_t m = x.shape.end()[-2], n = x.shape.back(), k = std::min(m, n), threads = ThreadsOf(m, n);
  return ForEachBlock(
      TextOf(row, spec), MatricesOf(x), threads,
      Room(x, threads) + fmt::format("Decompose<{3}>(a0 + i * {0} * {1}, (Index){0}, (Index){1}, "
                                     "r0 + i * {0} * {2}, r1 + i * {2} * {1}, shared);\n",
                                     Whole(m), Whole(n), Whole(k), threads));
}

}  // namespace

std::span<const Generator> LinalgKernels() {
  static constexpr Generator kGenerators[] = {
      {"cholesky", Cholesky}, {"triangular_solve", TriangularSolve}, {"qr", Qr}};
  return kGenerators;
}

}  // namespace meshwork::cuda
