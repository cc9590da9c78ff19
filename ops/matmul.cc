// The matmul family.
#include <algorithm>

#include "base/status.h"
#include "ops/builder.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/gemm.h"
#include "ops/kernels/stack.h"
#include "ops/registry.h"

namespace meshwork {
namespace {

// Names of batch dims in rules: all letters but those of m, k and n.
constexpr std::string_view kBatchLetters = "abcdefghijlopqrstuvwxyzABC";

Type BatchOf(const Type& type) { return {type.dtype, Shape(type.shape.begin(), type.shape.end() - 2)}; }

struct Sizes {
  bool transpose_a, transpose_b, sum_batch;
  int64_t m, n, k;
};

Sizes SizesOf(const Attrs& attrs, const Shape& a, const Shape& b) {
  const bool ta = attrs.Get<bool>("transpose_a"), tb = attrs.Get<bool>("transpose_b");
  const size_t ra = a.size(), rb = b.size();
  return {
      ta, tb, attrs.Get<bool>("sum_batch"), a[ra - (ta ? 1 : 2)], b[rb - (tb ? 2 : 1)], a[ra - (ta ? 2 : 1)]};
}

absl::StatusOr<std::vector<Type>> InferMatmul(const OpView& view) {
  const Type& a = view.operands[0];
  const Type& b = view.operands[1];
  if (a.rank() < 2 || b.rank() < 2)
    return InvalidArgument(
        "takes matrices, got {} and {}; reshape a vector to a matrix of one row or one column.", a.ToString(),
        b.ToString());
  if (a.dtype != b.dtype || !IsFloat(a.dtype))
    return InvalidArgument("takes f32, f64 or bf16, both alike, got {} and {}.", a.ToString(), b.ToString());
  const Sizes s = SizesOf(view.attrs, a.shape, b.shape);
  const int64_t other = b.shape[b.rank() - (s.transpose_b ? 1 : 2)];
  if (s.k != other)
    return InvalidArgument("k differs: a is {}{} (k={}), b is {}{} (k={}).", a.ToString(),
                           s.transpose_a ? " transposed" : "", s.k, b.ToString(),
                           s.transpose_b ? " transposed" : "", other);
  absl::StatusOr<Shape> batch = BroadcastShapes({BatchOf(a), BatchOf(b)});
  if (!batch.ok())
    return InvalidArgument("batch dims of {} and {}: {}", a.ToString(), b.ToString(),
                           MessageOf(batch.status()));
  if (s.sum_batch && BatchOf(a) != BatchOf(b))
    return InvalidArgument("sum_batch=true takes the same batch dims twice, got {} and {}.", a.ToString(),
                           b.ToString());
  Type result{a.dtype, s.sum_batch ? Shape() : *batch};
  result.shape.insert(result.shape.end(), {s.m, s.n});
  return std::vector<Type>{result};
}

// "abmk,1bkn->abmn": a batch dim has a letter where it does not broadcast.
Rule MatmulRule(const OpView& view) {
  const Sizes s = SizesOf(view.attrs, view.operands[0].shape, view.operands[1].shape);
  const Shape batch = BroadcastShapes({BatchOf(view.operands[0]), BatchOf(view.operands[1])}).value();
  auto term = [&](const Type& type, std::string_view matrix) {
    std::string letters;
    const size_t own = type.shape.size() - 2;
    for (size_t d = 0; d < own; ++d) {
      const size_t at = d + batch.size() - own;
      letters += type.shape[d] == batch[at] ? kBatchLetters[at] : '1';
    }
    return letters + std::string(matrix);
  };
  return MakeRule(term(view.operands[0], s.transpose_a ? "km" : "mk") + "," +
                      term(view.operands[1], s.transpose_b ? "nk" : "kn") + "->" +
                      term(view.results[0], "mn"),
                  view.operands, view.results, Linear(Which::kOne));
}

// The gradient of one operand, x · y: a matrix that all of a batch share sums over the batch in the product;
// other dims that broadcast are summed afterwards. A gradient that has no batch dims itself broadcasts.
Value ProductGrad(const Value& operand, const Value& x, const Value& y, bool transpose_x, bool transpose_y) {
  const bool is_shared = operand.rank() == 2 && x.rank() > 2 && y.rank() > 2;
  const Value product =
      AddOp("matmul", {x, y},
            {{"transpose_a", transpose_x}, {"transpose_b", transpose_y}, {"sum_batch", is_shared}});
  return SumToType(product, operand.type());
}

std::vector<Value> MatmulGrad(const GradView& view) {
  const Value& a = view.operands[0];
  const Value& b = view.operands[1];
  const Value& g = view.result_grads[0];
  const bool ta = view.attrs.Get<bool>("transpose_a"), tb = view.attrs.Get<bool>("transpose_b");
  return {ta ? ProductGrad(a, b, g, tb, true) : ProductGrad(a, g, b, false, !tb),
          tb ? ProductGrad(b, g, a, true, ta) : ProductGrad(b, a, g, !ta, false)};
}

double MatmulFlops(const OpView& view) {
  const Sizes s = SizesOf(view.attrs, view.operands[0].shape, view.operands[1].shape);
  const Shape batch = BroadcastShapes({BatchOf(view.operands[0]), BatchOf(view.operands[1])}).value();
  return 2.0 * static_cast<double>(NumElements(batch)) * static_cast<double>(s.m) * static_cast<double>(s.n) *
         static_cast<double>(s.k);
}

// ---- Kernel.

// The dims that lead the matrices: how many there are along each, how far apart they lie, in elements, in
// either operand, and whether the products are summed over it.
struct LeadingDim {
  int64_t size, a, b;
  bool summed;
};
using LeadingDims = std::vector<LeadingDim>;  // outer to inner

struct Products {
  GemmShape shape;
  LeadingDims kept, summed;
};

LeadingDims LeadingDimsOf(const KernelSpec& spec) {
  const Shape &a = spec.operands[0].local.shape, &b = spec.operands[1].local.shape;
  const size_t dims_a = a.size() - 2, dims_b = b.size() - 2, dims = std::max(dims_a, dims_b);
  LeadingDims leading(dims);
  int64_t dense_a = a.end()[-1] * a.end()[-2], dense_b = b.end()[-1] * b.end()[-2];
  for (size_t d = dims; d-- > 0;) {
    const int64_t size_a = d + dims_a >= dims ? a[d + dims_a - dims] : 1;
    const int64_t size_b = d + dims_b >= dims ? b[d + dims_b - dims] : 1;
    const bool summed = d < spec.reduced.size() ? spec.reduced[d] : spec.attrs.Get<bool>("sum_batch");
    const int64_t size = size_a == 1 ? size_b : size_a;
    leading[d] = {size, size_a == 1 ? 0 : dense_a, size_b == 1 ? 0 : dense_b, summed};
    dense_a *= size_a;
    dense_b *= size_b;
  }
  return leading;
}

// Matrices of `a` that lie one below the other and meet the same `b` are one taller matrix; those that are
// summed over and lie one behind the other along k, in both operands, are one product with a longer k.
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
  const Sizes s = SizesOf(spec.attrs, spec.operands[0].local.shape, spec.operands[1].local.shape);
  Products products{{s.transpose_a, s.transpose_b, s.m, s.n, s.k, 0, 0, 0}, {}, {}};
  for (const LeadingDim& dim : LeadingDimsOf(spec))
    (dim.summed ? products.summed : products.kept).push_back(dim);
  Join(products);
  GemmShape& shape = products.shape;
  shape.lda = shape.transpose_a ? shape.m : shape.k;
  shape.ldb = shape.transpose_b ? shape.k : shape.n;
  shape.ldc = shape.n;
  return products;
}

// The places of the matrices along the dims, in order.
std::vector<GemmTerm> PlacesOf(const LeadingDims& dims) {
  std::vector<GemmTerm> places = {{}};
  for (const LeadingDim& dim : dims) {
    std::vector<GemmTerm> more;
    for (const GemmTerm& outer : places)
      for (int64_t i = 0; i < dim.size; ++i) more.push_back({outer.a + i * dim.a, outer.b + i * dim.b});
    places = std::move(more);
  }
  return places;
}

// Libraries run at nearly full speed from some 64 rows on, and large products want more: each slice of a
// product reads all of b.
constexpr int64_t kRows = 64, kMostRows = 256, kSlices = 8;
constexpr int64_t kRowMultiple = 8;        // of the libraries' inner loops
constexpr double kWorthCutting = 1 << 18;  // floating-point operations of a slice

// The rows at which one product may be cut, from the shape alone: a power of two of even slices.
std::vector<int64_t> CutRows(const GemmShape& s, size_t terms) {
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) *
                       static_cast<double>(terms);
  const int64_t wanted = std::max(std::min(s.m / kRows, kSlices), s.m / kMostRows);
  int64_t slices = 1;
  while (2 * slices <= wanted && flops >= static_cast<double>(2 * slices) * kWorthCutting) slices *= 2;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < slices; ++i) rows.push_back(s.m * i / slices / kRowMultiple * kRowMultiple);
  return rows;
}

template <typename T>
Kernel MatmulKernel(const Products& products) {
  const GemmShape& shape = products.shape;
  const std::vector<GemmTerm> matrices = PlacesOf(products.kept), terms = PlacesOf(products.summed);
  const auto count = static_cast<int64_t>(matrices.size());
  Kernel kernel{.run = {}, .units = count * shape.m, .by_rows = true};
  const std::vector<int64_t> cuts = CutRows(shape, terms.size());
  for (int64_t i = 0; i < count; ++i)
    for (int64_t row : cuts) kernel.bounds.push_back(i * shape.m + row);
  kernel.bounds.push_back(kernel.units);
  // Operand a falls into parts as the results do where its matrices lie in their order.
  int64_t outer[2] = {1, 1}, rest[2] = {count, count};
  for (int o = 0; o < 2; ++o) {
    for (const LeadingDim& dim : products.kept) {
      rest[o] /= std::max<int64_t>(dim.size, 1);
      const int64_t matrix = o == 0 ? shape.m * shape.k : shape.k * shape.n;
      if ((o == 0 ? dim.a : dim.b) != rest[o] * matrix || !products.summed.empty()) break;
      outer[o] *= dim.size;
    }
  }
  const bool rows_of_a = outer[0] == count && !shape.transpose_a && products.summed.empty();
  kernel.parts = {rows_of_a ? kernel.units : outer[0], outer[1]};
  kernel.run = [shape, matrices, terms, bounds = kernel.bounds](const KernelArgs& args) {
    if (shape.m == 0) return;
    auto next = std::upper_bound(bounds.begin(), bounds.end(), args.begin);
    for (int64_t row = args.begin; row < args.end; row = *next++) {
      GemmShape slice = shape;
      slice.m = std::min(*next, args.end) - row;
      const GemmTerm& matrix = matrices[row / shape.m];
      const int64_t first = row % shape.m;
      Gemm(slice, terms, args.In<T>(0) + matrix.a + first * (shape.transpose_a ? 1 : shape.lda),
           args.In<T>(1) + matrix.b, args.Out<T>(0) + row * shape.ldc);
    }
  };
  return kernel;
}

// A unit is a row of a product.
Kernel MatmulCpu(const KernelSpec& spec) {
  const Products products = ProductsOf(spec);
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (kIsReal<T>) return MatmulKernel<T>(products);
    else return {};
  });
}

// Leading dims of size 1 take a place of their own in front of a batch that is shorter than the other's.
std::optional<KernelSpec> StackMatmul(const KernelSpec& spec, const StackDims& dims) {
  for (const StackDim& dim : dims)
    if (dim.reduced.has_value() && dim.reduced != ReduceOp::kSum) return std::nullopt;
  return Stacked(spec, dims,
                 std::max(spec.operands[0].local.shape.size(), spec.operands[1].local.shape.size()));
}

const std::vector<OpRow>& Rows() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "matmul",
       .doc = "C[…,m,n] = sum_k A[…,m,k] B[…,k,n]; transposed operands are stored the other way; batch dims "
              "broadcast, or are summed over",
       .num_operands = 2,
       .attrs = {{"transpose_a", AttrKind::kBool, false},
                 {"transpose_b", AttrKind::kBool, false},
                 {"sum_batch", AttrKind::kBool, false}},
       .infer = InferMatmul,
       .rule = MatmulRule,
       .grad = MatmulGrad,
       .flops = MatmulFlops,
       .cpu = MatmulCpu,
       .stack = StackMatmul,
       .is_product = true,
       .samples = {"f32[4,6], f32[6,8]", "f64[6,4], f64[6,8]; transpose_a=true",
                   "f64[4,6], f64[8,6]; transpose_b=true",
                   "f32[6,4], f32[8,6]; transpose_a=true transpose_b=true", "bf16[4,6], bf16[6,8]",
                   "f32[2,4,6], f32[2,6,8]", "f32[2,4,6], f32[6,8]", "f64[4,6], f64[2,6,8]",
                   "f64[2,1,4,6], f64[3,8,6]; transpose_b=true", "f32[2,6,4], f32[1,6,8]; transpose_a=true",
                   "f64[2,6,4], f64[2,6,8]; transpose_a=true sum_batch=true",
                   "bf16[2,4,6], bf16[2,8,6]; transpose_b=true sum_batch=true"}},
  };
  return *rows;
}

}  // namespace

std::span<const OpRow> MatmulOps() { return Rows(); }

Value MatMul(const Operand& a, const Operand& b, bool transpose_a, bool transpose_b) {
  return AddOp("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

}  // namespace meshwork
