// The kernel of matmul: products by the libraries, cut at rows or columns that depend on the shape alone.
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ops/kernels/blas/factories.h"
#include "meshwork/ops/kernels/blas/gemm.h"
#include "meshwork/ops/kernels/blas/held_signals.h"
#include "meshwork/ops/kernels/blas/leading_dims.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/matmul_sizes.h"

namespace meshwork {
namespace {

struct Products {
  GemmShape shape;
  LeadingDims kept, summed;
};

// Matrices of `a` that lie one below the other and are multiplied by the same `b` are joined to one taller
// matrix. Products that are summed, and whose matrices follow each other along k in both operands, are joined
// to one product with a longer k.
void Join(Products& products) {
  GemmShape& s = products.shape;
  while (!products.kept.empty()) {
    const LeadingDim& dim = products.kept.back();
    if (dim.size != 1 && (s.transpose_a || dim.b != 0 || dim.a != s.m * s.k)) break;
    s.m *= dim.size;
    products.kept.pop_back();
  }
  while (!products.summed.empty()) {
    const LeadingDim& dim = products.summed.back();
    const bool follow = s.transpose_a && !s.transpose_b && dim.a == s.m * s.k && dim.b == s.k * s.n;
    if (dim.size != 1 && !follow) break;
    s.k *= dim.size;
    products.summed.pop_back();
  }
}

Products ProductsOf(const KernelSpec& spec) {
  const MatmulSizes s = MatmulSizesOf(spec.attrs, spec.operands[0].local.shape, spec.operands[1].local.shape);
  Products products{{s.transpose_a, s.transpose_b, s.m, s.n, s.k, 0, 0, 0}, {}, {}};
  const auto is_summed = [&](size_t d) {
    return d < spec.reduced.size() ? bool{spec.reduced[d]} : spec.attrs.Get<bool>("sum_batch");
  };
  for (const LeadingDim& dim :
       LeadingDimsOf(spec.operands[0].local.shape, 2, spec.operands[1].local.shape, 2, is_summed))
    (dim.summed ? products.summed : products.kept).push_back(dim);
  Join(products);
  GemmShape& shape = products.shape;
  shape.lda = shape.transpose_a ? shape.m : shape.k;
  shape.ldb = shape.transpose_b ? shape.k : shape.n;
  shape.ldc = shape.n;
  return products;
}

// Libraries run at nearly full speed from some 64 rows on, and large products want more: each slice of a
// product reads all of b. Columns are cut where rows cannot be; a slice reads all of a.
constexpr int64_t kRows = 64, kMostRows = 256, kColumns = 64, kMostColumns = 2048, kFewSlices = 8;
constexpr int64_t kRowMultiple = 8;       // of the libraries' inner loops
constexpr int64_t kColumnMultiple = 16;   // a cache line of floats
constexpr double kWorthASlice = 1 << 18;  // floating-point operations of a slice

// Where `size` rows or columns of a product with `flops` floating-point operations are cut: a power of two of even slices,
// which depends on the shape alone.
std::vector<int64_t> CutEvenly(int64_t size, double flops, int64_t least, int64_t most, int64_t multiple) {
  const int64_t wanted = std::max(std::min(size / least, kFewSlices), size / most);
  int64_t slices = 1;
  while (2 * slices <= wanted && flops >= static_cast<double>(2 * slices) * kWorthASlice) slices *= 2;
  std::vector<int64_t> cuts;
  for (int64_t i = 0; i < slices; ++i) cuts.push_back(size * i / slices / multiple * multiple);
  return cuts;
}

double ProductFlops(const GemmShape& s, size_t terms) {
  return 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) *
         static_cast<double>(terms);
}
std::vector<int64_t> CutRows(const GemmShape& s, size_t terms) {
  return CutEvenly(s.m, ProductFlops(s, terms), kRows, kMostRows, kRowMultiple);
}
std::vector<int64_t> CutColumns(const GemmShape& s, size_t terms) {
  return CutEvenly(s.n, ProductFlops(s, terms), kColumns, kMostColumns, kColumnMultiple);
}

// Products of one shape: the place of each one's matrices, and the terms that each one adds up, counted from its place.
struct Matrices {
  GemmShape shape;
  std::vector<GemmTerm> places, terms;

  int64_t count() const { return std::ssize(places); }
};

// Rows and columns [row, …) and [column, …) of product `i`, as many as `slice` has; its other sizes are those of the whole.
template <typename T>
void MultiplySlice(const Matrices& matrices, int64_t i, int64_t row, int64_t column, const GemmShape& slice,
                   const KernelArgs& args) {
  const GemmTerm& place = matrices.places[i];
  Gemm(slice, matrices.terms, args.In<T>(0) + place.a + row * (slice.transpose_a ? 1 : slice.lda),
       args.In<T>(1) + place.b + column * (slice.transpose_b ? slice.ldb : 1),
       args.Out<T>(0) + (i * matrices.shape.m + row) * slice.ldc + column);
}

// Bounds of `count` times `size` units with the same cuts.
std::vector<int64_t> BoundsOf(int64_t count, int64_t size, const std::vector<int64_t>& cuts) {
  std::vector<int64_t> bounds;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t cut : cuts) bounds.push_back(i * size + cut);
  bounds.push_back(count * size);
  return bounds;
}

// Operands can be cut into parts like the results if their matrices lie in the same order. Per operand: into how many.
std::array<int64_t, 2> OuterMatrices(const Products& products, int64_t count) {
  const GemmShape& shape = products.shape;
  std::array<int64_t, 2> outer = {1, 1}, rest = {count, count};
  for (int o = 0; o < 2; ++o) {
    for (const LeadingDim& dim : products.kept) {
      rest[o] /= std::max<int64_t>(dim.size, 1);
      const int64_t matrix = o == 0 ? shape.m * shape.k : shape.k * shape.n;
      if ((o == 0 ? dim.a : dim.b) != rest[o] * matrix || !products.summed.empty()) break;
      outer[o] *= dim.size;
    }
  }
  return outer;
}

// A unit is a row of a product.
template <typename T>
Kernel CutByRows(const Products& products, Matrices matrices) {
  const GemmShape& shape = products.shape;
  const std::array<int64_t, 2> outer = OuterMatrices(products, matrices.count());
  Kernel kernel{.run = {}, .units = matrices.count() * shape.m, .by_rows = true};
  kernel.bounds = BoundsOf(matrices.count(), shape.m, CutRows(shape, matrices.terms.size()));
  const bool rows_of_a = outer[0] == matrices.count() && !shape.transpose_a && products.summed.empty();
  kernel.parts = {rows_of_a ? kernel.units : outer[0], outer[1]};
  kernel.run = [matrices = std::move(matrices), bounds = kernel.bounds](const KernelArgs& args) {
    const GemmShape& shape = matrices.shape;
    if (shape.m == 0) return;
    const HeldSignals held(std::is_same_v<T, double> ? 0 : shape.k);  // once for all products
    auto next = std::upper_bound(bounds.begin(), bounds.end(), args.begin);
    for (int64_t row = args.begin; row < args.end; row = *next++) {
      GemmShape slice = shape;
      slice.m = std::min(*next, args.end) - row;
      MultiplySlice<T>(matrices, row / shape.m, row % shape.m, 0, slice, args);
    }
  };
  return kernel;
}

// A unit is a column of a product. Only those of a single row, such as a text's next token, lie one behind the other.
template <typename T>
Kernel CutByColumns(const Products& products, Matrices matrices) {
  const GemmShape& shape = products.shape;
  const std::array<int64_t, 2> outer = OuterMatrices(products, matrices.count());
  Kernel kernel{.run = {}, .units = matrices.count() * shape.n, .by_rows = shape.m == 1};
  kernel.bounds = BoundsOf(matrices.count(), shape.n, CutColumns(shape, matrices.terms.size()));
  const bool columns_of_b = outer[1] == matrices.count() && shape.transpose_b && products.summed.empty();
  if (kernel.by_rows) kernel.parts = {outer[0], columns_of_b ? kernel.units : outer[1]};
  kernel.run = [matrices = std::move(matrices), bounds = kernel.bounds](const KernelArgs& args) {
    const GemmShape& shape = matrices.shape;
    const HeldSignals held(std::is_same_v<T, double> ? 0 : shape.k);
    auto next = std::upper_bound(bounds.begin(), bounds.end(), args.begin);
    for (int64_t column = args.begin; column < args.end; column = *next++) {
      GemmShape slice = shape;
      slice.n = std::min(*next, args.end) - column;
      MultiplySlice<T>(matrices, column / shape.n, 0, column % shape.n, slice, args);
    }
  };
  return kernel;
}

template <typename T>
Kernel MatmulKernel(const Products& products) {
  const GemmShape& shape = products.shape;
  Matrices matrices{shape, PlacesOf(products.kept), PlacesOf(products.summed)};
  const size_t terms = matrices.terms.size();
  const bool by_rows = matrices.count() >= kFewSlices || CutRows(shape, terms).size() > 1;
  return by_rows || CutColumns(shape, terms).size() == 1 ? CutByRows<T>(products, std::move(matrices))
                                                         : CutByColumns<T>(products, std::move(matrices));
}

}  // namespace

Kernel MatmulCpu(const KernelSpec& spec) {
  const Products products = ProductsOf(spec);
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (kIsReal<T>) return MatmulKernel<T>(products);
    else return {};
  });
}

}  // namespace meshwork
