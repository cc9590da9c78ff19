// The kernels of cholesky, triangular_solve and qr. Small matrices run side by side, by loops; large ones by products
// of blocks and OpenBLAS, and few large ones by all workers together.
#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <type_traits>
#include <vector>

#include "meshwork/base/cpu_dispatch.h"
#include "meshwork/ir/kernel.h"
#include "meshwork/ops/kernels/blas/blocked_qr.h"
#include "meshwork/ops/kernels/blas/crew.h"
#include "meshwork/ops/kernels/blas/factories.h"
#include "meshwork/ops/kernels/blas/gemm.h"
#include "meshwork/ops/kernels/blas/library_threads.h"
#include "meshwork/ops/kernels/blas/small_matrices.h"
#include "meshwork/ops/kernels/thread_scratch.h"

namespace meshwork {
namespace {

int64_t RowsOf(const Type& x) { return x.shape[x.shape.size() - 2]; }
int64_t ColumnsOf(const Type& x) { return x.shape.back(); }

int64_t MatricesOf(const Type& x) { return NumElements(Shape(x.shape.begin(), x.shape.end() - 2)); }

// A unit is a matrix; `run(args, matrix)` for each.
template <typename Run>
Kernel MatrixKernel(const KernelSpec& spec, Run run) {
  const int64_t matrices = MatricesOf(spec.results[0].local);
  return {.run =
              [run](const KernelArgs& args) {
                TeamUnits units(args.team);
                for (int64_t i = args.begin; i < args.end; ++i) units.Run([&] { run(args, i); });
                units.Finish();
              },
          .units = matrices,
          .by_rows = true,
          .parts = std::vector<int64_t>(spec.operands.size(), matrices)};
}

// If there are few matrices, all workers compute them together, one after the other; if there are many, one worker
// computes each. `flops`: floating-point operations per matrix.
Kernel ByTeam(Kernel kernel, double flops) {
  constexpr double kWorthATeam = 1e8;  // far above what it costs to meet a thousand times
  constexpr int64_t kMany = 64;
  if (flops < kWorthATeam || kernel.units == 0 || kernel.units >= kMany) return kernel;
  kernel.by_team = true;
  kernel.by_rows = false;
  kernel.parts.clear();
  return kernel;
}

template <typename Make>
Kernel ForF32AndF64(const KernelSpec& spec, Make make) {
  return spec.results[0].local.dtype == F64 ? make(double{}) : make(float{});
}

// ---- triangular_solve.

CBLAS_UPLO UpperOrLower(bool lower) { return lower ? CblasLower : CblasUpper; }
CBLAS_TRANSPOSE Transposition(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }
CBLAS_DIAG Diagonal(bool unit) { return unit ? CblasUnit : CblasNonUnit; }

// x = op(a)⁻¹ x, or with `right` x op(a)⁻¹: x: [rows, columns], rows of either `a_stride` and `stride` elements apart.
template <typename T>
void SolveByLibrary(bool right, const Triangle& t, int64_t rows, int64_t columns, const T* a,
                    int64_t a_stride, T* x, int64_t stride) {
  ReserveForOpenBlas();
  const auto solve = [&](auto* trsm) {
    trsm(CblasRowMajor, right ? CblasRight : CblasLeft, UpperOrLower(t.lower), Transposition(t.transposed),
         Diagonal(t.unit), static_cast<blasint>(rows), static_cast<blasint>(columns), 1, a,
         static_cast<blasint>(a_stride), x, static_cast<blasint>(stride));
  };
  if constexpr (std::is_same_v<T, double>) solve(cblas_dtrsm);
  else solve(cblas_strsm);
}

constexpr int64_t kSmallTriangle = 32;  // rows; the loops are as fast up to here
constexpr int64_t kSolvedColumns = 128;

// A unit is a matrix's slice of columns, each of which is solved by itself.
template <typename T>
Kernel SolveSlices(int64_t matrices, int64_t n, int64_t columns, const Triangle& t) {
  const int64_t slices = (columns + kSolvedColumns - 1) / kSolvedColumns;
  return {.run =
              [n, columns, slices, t](const KernelArgs& args) {
                for (int64_t unit = args.begin; unit < args.end; ++unit) {
                  const int64_t matrix = unit / slices, first = unit % slices * kSolvedColumns;
                  const int64_t count = std::min(kSolvedColumns, columns - first);
                  const int64_t at = matrix * n * columns + first;
                  const T* const b = args.In<T>(1) + at;
                  T* const x = args.Out<T>(0) + at;
                  for (int64_t i = 0; i < n; ++i) std::copy_n(b + i * columns, count, x + i * columns);
                  SolveByLibrary(/*right=*/false, t, n, count, args.In<T>(0) + matrix * n * n, n, x, columns);
                }
              },
          .units = matrices * slices};
}

// ---- cholesky.

constexpr int64_t kSmallCholesky = 128;
constexpr int64_t kBlock = 128, kTaskRows = 256;  // columns that are factored at once; rows of a task

// From left to right, a block of columns at a time: subtracts the products of earlier columns, factors the square on
// the diagonal by loops, and solves for the rows below it.
template <typename T>
class BlockedCholesky {
 public:
  BlockedCholesky(const T* x, int64_t n, T* l, Team* team) : x_(x), n_(n), l_(l), team_(team) {}

  void Run() {
    Shared own;
    shared_ = team_ == nullptr ? &own : static_cast<Shared*>(team_->FromFirst(&own));
    Crew crew(team_, shared_->crew);
    for (int64_t j = 0; j < n_; j += kBlock) {
      const int64_t width = std::min(kBlock, n_ - j);
      crew.Share((n_ - j + kTaskRows - 1) / kTaskRows,
                 [&](int64_t t) { TakeOff(j, width, j + t * kTaskRows); });
      crew.First([&] { Factor(j, width); });
      if (!shared_->is_positive) break;
      crew.Share((n_ - j - width + kTaskRows - 1) / kTaskRows,
                 [&](int64_t t) { Solve(j, width, j + width + t * kTaskRows); });
    }
    const T rest = shared_->is_positive ? T(0) : std::numeric_limits<T>::quiet_NaN();
    crew.ForEach(n_, [&](int64_t i) {
      const int64_t from = shared_->is_positive ? i + 1 : 0;
      std::fill_n(l_ + i * n_ + from, n_ - from, rest);
    });
    crew.Finish();
  }

 private:
  struct Shared {
    CrewState crew;
    bool is_positive = true;
  };

  // l = x minus the products of columns [0, j), for some rows of the block of columns at j.
  void TakeOff(int64_t j, int64_t width, int64_t row) {
    const int64_t rows = std::min(kTaskRows, n_ - row);
    ScratchPieces pieces(ScratchPieces::Padded(kTaskRows * kBlock * static_cast<int64_t>(sizeof(T))));
    T* const taken = pieces.Take<T>(kTaskRows * kBlock);
    const GemmTerm term;
    Gemm({.transpose_b = true, .m = rows, .n = width, .k = j, .lda = n_, .ldb = n_, .ldc = width}, {&term, 1},
         l_ + row * n_, l_ + j * n_, taken);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t c = 0; c < width; ++c)
        l_[(row + i) * n_ + j + c] = x_[(row + i) * n_ + j + c] - taken[i * width + c];
  }
  void Factor(int64_t j, int64_t width) {
    T* const square = l_ + j * n_ + j;
    RunOnThisCpu([&] { shared_->is_positive = FactorCholesky(square, width, n_, square); });
  }
  void Solve(int64_t j, int64_t width, int64_t row) {
    SolveByLibrary(/*right=*/true, {.lower = true, .transposed = true, .unit = false},
                   std::min(kTaskRows, n_ - row), width, l_ + j * n_ + j, n_, l_ + row * n_ + j, n_);
  }

  const T* const x_;
  const int64_t n_;
  T* const l_;
  Team* const team_;
  Shared* shared_ = nullptr;
};

template <typename T>
void SmallCholesky(const T* x, int64_t n, T* l) {
  RunOnThisCpu([&] {
    if (!FactorCholesky(x, n, n, l)) std::fill_n(l, n * n, std::numeric_limits<T>::quiet_NaN());
  });
}

}  // namespace

Kernel CholeskyCpu(const KernelSpec& spec) {
  return ForF32AndF64(spec, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = RowsOf(spec.operands[0].local);
    const auto size = static_cast<double>(n);
    const Kernel kernel = MatrixKernel(spec, [n](const KernelArgs& args, int64_t i) {
      const T* const x = args.In<T>(0) + i * n * n;
      T* const l = args.Out<T>(0) + i * n * n;
      if (n <= kSmallCholesky) SmallCholesky(x, n, l);
      else BlockedCholesky<T>(x, n, l, args.team).Run();
    });
    return ByTeam(kernel, size * size * size / 3);
  });
}

Kernel TriangularSolveCpu(const KernelSpec& spec) {
  const Triangle t{spec.attrs.Get<bool>("lower"), spec.attrs.Get<bool>("transpose_a"),
                   spec.attrs.Get<bool>("unit_diagonal")};
  return ForF32AndF64(spec, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = RowsOf(spec.operands[0].local), columns = ColumnsOf(spec.operands[1].local);
    if (n > kSmallTriangle) return SolveSlices<T>(MatricesOf(spec.operands[0].local), n, columns, t);
    return MatrixKernel(spec, [n, columns, t](const KernelArgs& args, int64_t i) {
      T* const x = args.Out<T>(0) + i * n * columns;
      std::copy_n(args.In<T>(1) + i * n * columns, n * columns, x);
      RunOnThisCpu([&] { SolveInPlace(args.In<T>(0) + i * n * n, n, columns, t, x); });
    });
  });
}

Kernel QrCpu(const KernelSpec& spec) {
  return ForF32AndF64(spec, [&](auto zero) {
    using T = decltype(zero);
    const int64_t m = RowsOf(spec.operands[0].local), n = ColumnsOf(spec.operands[0].local);
    const int64_t k = std::min(m, n);
    const bool is_blocked = IsBlockedQr(m, n);
    const Kernel kernel = MatrixKernel(spec, [m, n, k, is_blocked](const KernelArgs& args, int64_t i) {
      const T* const x = args.In<T>(0) + i * m * n;
      T *const q = args.Out<T>(0) + i * m * k, *const r = args.Out<T>(1) + i * k * n;
      if (is_blocked) BlockedQr(x, m, n, q, r, args.team);
      else RunOnThisCpu([&] { Decompose(x, m, n, q, r); });
    });
    const double flops = 4.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    return is_blocked ? ByTeam(kernel, flops) : kernel;
  });
}

}  // namespace meshwork
