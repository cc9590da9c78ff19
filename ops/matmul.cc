// The matmul family.
#include "base/status.h"
#include "ops/builder.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/gemm.h"
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

// How the matrices of a batch lie: dims of the batch, and per operand the stride along each, in matrices.
struct Batch {
  Shape shape;
  std::array<Shape, 2> strides;
};

Batch BatchOf(const KernelSpec& spec, bool sum_batch) {
  const Type a = BatchOf(spec.operands[0].local), b = BatchOf(spec.operands[1].local);
  Batch batch;
  if (sum_batch) return batch;
  batch.shape = BatchOf(spec.results[0].local).shape;
  for (int o = 0; o < 2; ++o) {
    const Shape& own = o == 0 ? a.shape : b.shape;
    batch.strides[o].assign(batch.shape.size(), 0);
    int64_t dense = 1;
    for (size_t d = own.size(); d-- > 0; dense *= own[d])
      batch.strides[o][d + batch.shape.size() - own.size()] = own[d] == 1 ? 0 : dense;
  }
  return batch;
}

// Matrices of `a` that lie one below the other and meet the same `b` are one taller matrix.
void JoinRows(GemmShape& shape, Batch& batch) {
  while (!shape.transpose_a && !batch.shape.empty() && batch.strides[1].back() == 0) {
    const int64_t joined = batch.shape.back();
    if (joined != 1 && batch.strides[0].back() != 1) return;
    shape.m *= joined;
    batch.shape.pop_back();
    for (Shape& strides : batch.strides) strides.pop_back();
    for (int64_t& stride : batch.strides[0]) stride /= std::max<int64_t>(joined, 1);
  }
}

template <typename T>
Kernel MatmulKernel(const GemmShape& shape, const Batch& batch) {
  return {.run =
              [shape, walk = MergeDims<2>(batch.shape, batch.strides)](const KernelArgs& args) {
                const int64_t size_a = shape.m * shape.k, size_b = shape.k * shape.n;
                const std::array<int64_t, 2>& strides = walk.dims.back().strides;
                ForEachRun(walk, args.begin, args.end,
                           [&](int64_t to, const std::array<int64_t, 2>& from, int64_t n) {
                             for (int64_t i = 0; i < n; ++i)
                               Gemm(shape, args.In<T>(0) + (from[0] + i * strides[0]) * size_a,
                                    args.In<T>(1) + (from[1] + i * strides[1]) * size_b,
                                    args.Out<T>(0) + (to + i) * shape.m * shape.n);
                           });
              },
          .units = NumElements(batch.shape)};
}

// A unit is a product of two matrices: how a library adds up may depend on the rows it is given.
Kernel MatmulCpu(const KernelSpec& spec) {
  const Sizes s = SizesOf(spec.attrs, spec.operands[0].local.shape, spec.operands[1].local.shape);
  GemmShape shape{s.transpose_a, s.transpose_b, s.m, s.n, s.k};
  if (s.sum_batch) shape.terms = BatchOf(spec.operands[0].local).num_elements();
  Batch batch = BatchOf(spec, s.sum_batch);
  JoinRows(shape, batch);
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (kIsReal<T>) return MatmulKernel<T>(shape, batch);
    else return {};
  });
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
