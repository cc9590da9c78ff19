// The kernel of matmul_q. Products with few rows read each block of the matrix once, and make its numbers in registers
// (quantized_rows.h). For more rows, a panel of the matrix is made that stays in the L2 cache, and multiplied by the library.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ops/kernels/blas/factories.h"
#include "meshwork/ops/kernels/blas/gemm.h"
#include "meshwork/ops/kernels/blas/held_signals.h"
#include "meshwork/ops/kernels/blas/leading_dims.h"
#include "meshwork/ops/kernels/blas/quantized_rows.h"
#include "meshwork/ops/kernels/blocks_of_32.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/thread_scratch.h"

namespace meshwork {
namespace {

// Products of x: [rows,k] and matrices [n,k], one for each place in `kept`; each is a sum over the places in `terms`.
struct QuantizedProducts {
  int64_t rows, n, blocks, bytes;
  bool has_zero;
  std::vector<GemmTerm> kept, terms;

  int64_t k() const { return blocks * kBlockNumbers; }

  // The matrix of a kept place and a term, from row `row` on.
  QuantizedRows MatrixAt(const KernelArgs& args, const GemmTerm& at, const GemmTerm& term,
                         int64_t row) const {
    const int64_t of_q = at.b + term.b, of_scale = of_q / std::max<int64_t>(bytes, 1);
    return QuantizedRows{args.In<std::byte>(1) + of_q, args.In<Float16>(2) + of_scale,
                         has_zero ? args.In<Float16>(3) + of_scale : nullptr, blocks, bytes}
        .From(row);
  }
};

QuantizedProducts QuantizedProductsOf(const KernelSpec& spec) {
  const Shape &x = spec.operands[0].local.shape, &q = spec.operands[1].local.shape;
  const size_t leading = spec.reduced.size();
  QuantizedProducts products{.rows = 1,
                             .n = q.end()[-3],
                             .blocks = q.end()[-2],
                             .bytes = q.end()[-1],
                             .has_zero = spec.operands.size() > 3,
                             .kept = {},
                             .terms = {}};
  for (size_t d = leading; d + 2 < x.size(); ++d) products.rows *= x[d];
  LeadingDims kept, summed;
  for (const LeadingDim& dim :
       LeadingDimsOf(x, x.size() - leading, q, 3, [&](size_t d) { return bool{spec.reduced[d]}; }))
    (dim.summed ? summed : kept).push_back(dim);
  // Matrices of x that are multiplied by the same matrix are one taller matrix.
  while (!kept.empty() && kept.back().b == 0 && kept.back().a == products.rows * products.k()) {
    products.rows *= kept.back().size;
    kept.pop_back();
  }
  products.kept = PlacesOf(kept);
  products.terms = PlacesOf(summed);
  return products;
}

// x as floats: itself, or rounded to no fewer digits in `to`.
template <typename T>
const float* AsFloats(const T* x, int64_t n, float* to) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    RunOnThisCpu([=] {
      MESHWORK_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(x[i]);
    });
    return to;
  }
}

// ---- Few rows. A unit is a row of a matrix, which gives a column of a product.

// More rows are worth a panel.
constexpr int64_t kFewRows = 24;
// Of a tile: a row of x is made ready once for each.
constexpr int64_t kSumsOfTile = 512;

// Columns [column, column + columns) of a product.
template <typename T>
void MultiplyFewRows(const QuantizedProducts& p, const KernelArgs& args, const GemmTerm& at, int64_t column,
                     int64_t columns, float* scratch, T* out) {
  double sums[kSumsOfTile];
  for (int64_t row = 0; row < p.rows; row += kMostRowsOfX) {
    const int64_t rows = std::min(kMostRowsOfX, p.rows - row);
    std::fill_n(sums, rows * columns, 0.0);
    for (const GemmTerm& term : p.terms) {
      const float* x = AsFloats(args.In<T>(0) + at.a + term.a + row * p.k(), rows * p.k(), scratch);
      AddProducts(p.MatrixAt(args, at, term, column), columns, x, rows, sums);
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        out[(row + r) * p.n + column + c] = static_cast<T>(static_cast<float>(sums[r * columns + c]));
  }
}

template <typename T>
Kernel FewRowsKernel(const QuantizedProducts& products) {
  const auto matrices = std::ssize(products.kept);
  Kernel kernel{.run = {}, .units = matrices * products.n, .by_rows = products.rows == 1};
  if (kernel.by_rows && matrices == 1 && products.terms.size() == 1)
    kernel.parts = {1, products.n, products.n, products.n};
  kernel.run = [p = products](const KernelArgs& args) {
    const int64_t floats = std::is_same_v<T, float> ? 0 : std::min(p.rows, kMostRowsOfX) * p.k();
    ScratchPieces pieces(ScratchPieces::Padded(floats * static_cast<int64_t>(sizeof(float))));
    float* const scratch = pieces.Take<float>(floats);
    for (int64_t unit = args.begin; unit < args.end;) {
      const int64_t matrix = unit / p.n, column = unit % p.n;
      const int64_t columns = std::min(
          {kSumsOfTile / std::clamp<int64_t>(p.rows, 1, kMostRowsOfX), p.n - column, args.end - unit});
      MultiplyFewRows(p, args, p.kept[matrix], column, columns, scratch,
                      args.Out<T>(0) + matrix * p.rows * p.n);
      unit += columns;
    }
  };
  return kernel;
}

// ---- Many rows. A unit is a row of a matrix, for some rows of x.

constexpr int64_t kRowsOfTile = 256;
constexpr int64_t kPanelFloats = 1 << 16;  // a quarter of a megabyte
constexpr int64_t kLeastPanel = 16, kMostPanel = 512;

// Rows of a matrix that make a panel.
int64_t PanelOf(int64_t k) {
  return std::clamp(kPanelFloats / std::max<int64_t>(k, 1) / kLeastPanel * kLeastPanel, kLeastPanel,
                    kMostPanel);
}

// Where a thread works on a tile: the panel, and what is not computed in place.
template <typename T>
struct PanelBuffers {
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;  // what is computed in
  static constexpr bool kInPlace = std::is_same_v<T, Real>;

  PanelBuffers(const QuantizedProducts& p, int64_t width)
      : rows(std::min(p.rows, kRowsOfTile)),
        pieces(ScratchPieces::Padded(Bytes<float>(width * p.k())) +
               ScratchPieces::Padded(Bytes<double>(std::is_same_v<Real, double> ? width * p.k() : 0)) +
               ScratchPieces::Padded(Bytes<float>(kInPlace ? 0 : rows * p.k())) +
               ScratchPieces::Padded(Bytes<float>(kInPlace ? 0 : rows * width))),
        numbers(pieces.Take<float>(width * p.k())),
        wide(pieces.Take<double>(std::is_same_v<Real, double> ? width * p.k() : 0)),
        x(pieces.Take<float>(kInPlace ? 0 : rows * p.k())),
        sums(pieces.Take<float>(kInPlace ? 0 : rows * width)) {}

  // The first `count` rows of w, in the type that is computed in.
  const Real* Panel(const QuantizedRows& w, int64_t count) {
    DequantizeRows(w, count, numbers);
    if constexpr (std::is_same_v<Real, double>) {
      std::copy_n(numbers, count * w.blocks * kBlockNumbers, wide);
      return wide;
    } else {
      return numbers;
    }
  }

  const int64_t rows;
  ScratchPieces pieces;
  float* const numbers;
  double* const wide;
  float* const x;
  float* const sums;

 private:
  template <typename Element>
  static int64_t Bytes(int64_t count) {
    return count * static_cast<int64_t>(sizeof(Element));
  }
};

// out: [rows, columns], rows p.n apart, the product of rows of x with the matrix from row `column` on.
template <typename T>
void MultiplyPanel(const QuantizedProducts& p, const KernelArgs& args, const GemmTerm& at, int64_t row,
                   int64_t rows, int64_t column, int64_t columns, PanelBuffers<T>& buffers, T* out) {
  using Real = typename PanelBuffers<T>::Real;
  GemmShape shape{false, true, rows, columns, p.k(), p.k(), p.k(), p.n};
  static constexpr GemmTerm kHere[] = {{}};
  for (const GemmTerm& term : p.terms) {
    const T* const x = args.In<T>(0) + at.a + term.a + row * p.k();
    const Real* const panel = buffers.Panel(p.MatrixAt(args, at, term, column), columns);
    if constexpr (PanelBuffers<T>::kInPlace) {
      Gemm(shape, kHere, x, panel, out);
    } else {
      shape.ldc = columns;
      Gemm(shape, kHere, AsFloats(x, rows * p.k(), buffers.x), panel, buffers.sums);
    }
    shape.accumulate = true;
  }
  if constexpr (!PanelBuffers<T>::kInPlace)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) out[r * p.n + c] = static_cast<T>(buffers.sums[r * columns + c]);
}

template <typename T>
Kernel ManyRowsKernel(const QuantizedProducts& products) {
  const int64_t width = std::min(PanelOf(products.k()), products.n);
  const int64_t tiles = (products.rows + kRowsOfTile - 1) / kRowsOfTile, n = products.n;
  const auto matrices = std::ssize(products.kept);
  Kernel kernel{.run = {}, .units = matrices * tiles * n};
  for (int64_t tile = 0; tile < matrices * tiles; ++tile)
    for (int64_t column = 0; column < n; column += width) kernel.bounds.push_back(tile * n + column);
  kernel.bounds.push_back(kernel.units);
  kernel.run = [p = products, width, tiles](const KernelArgs& args) {
    if (args.begin == args.end) return;
    const HeldSignals held(std::is_same_v<T, double> ? 0 : p.k());  // once for all products
    PanelBuffers<T> buffers(p, width);
    for (int64_t unit = args.begin; unit < args.end;) {
      const int64_t matrix = unit / p.n / tiles, row = unit / p.n % tiles * kRowsOfTile, column = unit % p.n;
      const int64_t rows = std::min(kRowsOfTile, p.rows - row), columns = std::min(width, p.n - column);
      MultiplyPanel(p, args, p.kept[matrix], row, rows, column, columns, buffers,
                    args.Out<T>(0) + (matrix * p.rows + row) * p.n + column);
      unit += columns;
    }
  };
  return kernel;
}

}  // namespace

Kernel MatmulQCpu(const KernelSpec& spec) {
  const QuantizedProducts products = QuantizedProductsOf(spec);
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (!kIsReal<T>) return {};
    else if constexpr (!std::is_same_v<T, double>)
      return products.rows <= kFewRows ? FewRowsKernel<T>(products) : ManyRowsKernel<T>(products);
    else return ManyRowsKernel<T>(products);
  });
}

}  // namespace meshwork
