// The matmul family. Its kernel is in ops/kernels/blas/matmul.cc.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/matmul_sizes.h"
#include "meshwork/ops/kernels/stack.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// Names of batch dims in rules: all letters but those of m, k and n.
constexpr std::string_view kBatchLetters = "abcdefghijlopqrstuvwxyzABC";

Type BatchOf(const Type& type) { return {type.dtype, Shape(type.shape.begin(), type.shape.end() - 2)}; }

absl::StatusOr<std::vector<Type>> InferMatmul(const OpView& view) {
  const Type& a = view.operands[0];
  const Type& b = view.operands[1];
  if (a.rank() < 2 || b.rank() < 2)
    return InvalidArgument(
        "takes matrices, got {} and {}; reshape a vector to a matrix of one row or one column.", a.ToString(),
        b.ToString());
  if (a.dtype != b.dtype || !IsFloat(a.dtype))
    return InvalidArgument("takes f32, f64 or bf16, both alike, got {} and {}; cast one, or both.",
                           a.ToString(), b.ToString());
  const MatmulSizes s = MatmulSizesOf(view.attrs, a.shape, b.shape);
  const int64_t other = b.shape[b.rank() - (s.transpose_b ? 1 : 2)];
  if (s.k != other)
    return InvalidArgument("k differs: a is {}{} (k={}), b is {}{} (k={}){}", a.ToString(),
                           s.transpose_a ? " transposed" : "", s.k, b.ToString(),
                           s.transpose_b ? " transposed" : "", other,
                           s.n == s.k && !s.transpose_b ? "; transpose_b=true takes it transposed."
                                                        : "; make a's columns as many as b's rows.");
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
  const MatmulSizes s = MatmulSizesOf(view.attrs, view.operands[0].shape, view.operands[1].shape);
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

// The gradient of one operand, x · y. If a whole batch shares the operand, the product sums over the batch;
// other dims that broadcast are summed afterwards. A gradient without batch dims broadcasts.
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
  const MatmulSizes s = MatmulSizesOf(view.attrs, view.operands[0].shape, view.operands[1].shape);
  const Shape batch = BroadcastShapes({BatchOf(view.operands[0]), BatchOf(view.operands[1])}).value();
  return 2.0 * static_cast<double>(NumElements(batch)) * static_cast<double>(s.m) * static_cast<double>(s.n) *
         static_cast<double>(s.k);
}

// Leading dims of size 1 take a place of their own in front of a batch that is shorter than the other's.
std::optional<KernelSpec> StackMatmul(const KernelSpec& spec, const StackDims& dims) {
  for (const StackDim& dim : dims)
    if (dim.reduced.has_value() && dim.reduced != ReduceOp::kSum) return std::nullopt;
  return Stacked(spec, dims,
                 std::max(spec.operands[0].local.shape.size(), spec.operands[1].local.shape.size()));
}

}  // namespace

MatmulSizes MatmulSizesOf(const Attrs& attrs, const Shape& a, const Shape& b) {
  const bool ta = attrs.Get<bool>("transpose_a"), tb = attrs.Get<bool>("transpose_b");
  const size_t ra = a.size(), rb = b.size();
  return {
      ta, tb, attrs.Get<bool>("sum_batch"), a[ra - (ta ? 1 : 2)], b[rb - (tb ? 2 : 1)], a[ra - (ta ? 2 : 1)]};
}

std::span<const OpRow> MatmulOps() {
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

Value MatMul(const Operand& a, const Operand& b, bool transpose_a, bool transpose_b) {
  return AddOp("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

}  // namespace meshwork
