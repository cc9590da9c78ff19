// The matmul family.
#include "base/status.h"
#include "ops/builder.h"
#include "ops/kernels/gemm.h"
#include "ops/registry.h"

namespace meshwork {
namespace {

struct Sizes {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
};

Sizes SizesOf(const Attrs& attrs, const Shape& a, const Shape& b) {
  const bool ta = attrs.Get<bool>("transpose_a"), tb = attrs.Get<bool>("transpose_b");
  return {ta, tb, a[ta ? 1 : 0], b[tb ? 0 : 1], a[ta ? 0 : 1]};
}

absl::StatusOr<std::vector<Type>> InferMatmul(const OpView& view) {
  const Type& a = view.operands[0];
  const Type& b = view.operands[1];
  if (a.rank() != 2 || b.rank() != 2)
    return InvalidArgument("takes two matrices, got {} and {}.", a.ToString(), b.ToString());
  if (a.dtype != b.dtype || !IsFloat(a.dtype))
    return InvalidArgument("takes f32 or f64, both alike, got {} and {}.", a.ToString(), b.ToString());
  const Sizes s = SizesOf(view.attrs, a.shape, b.shape);
  const int64_t other = b.shape[s.transpose_b ? 1 : 0];
  if (s.k != other)
    return InvalidArgument("k differs: a is {}{} (k={}), b is {}{} (k={}).", a.ToString(),
                           s.transpose_a ? " transposed" : "", s.k, b.ToString(),
                           s.transpose_b ? " transposed" : "", other);
  return std::vector<Type>{{a.dtype, {s.m, s.n}}};
}

Rule MatmulRule(const OpView& view) {
  const std::string a = view.attrs.Get<bool>("transpose_a") ? "km" : "mk";
  const std::string b = view.attrs.Get<bool>("transpose_b") ? "nk" : "kn";
  return MakeRule(a + "," + b + "->mn", view.operands, view.results, Linear(Which::kOne));
}

std::vector<Value> MatmulGrad(const GradView& view) {
  const Value& a = view.operands[0];
  const Value& b = view.operands[1];
  const Value& g = view.result_grads[0];
  const bool ta = view.attrs.Get<bool>("transpose_a"), tb = view.attrs.Get<bool>("transpose_b");
  return {ta ? MatMul(b, g, tb, true) : MatMul(g, b, false, !tb),
          tb ? MatMul(g, a, true, ta) : MatMul(a, g, !ta, false)};
}

double MatmulFlops(const OpView& view) {
  const Sizes s = SizesOf(view.attrs, view.operands[0].shape, view.operands[1].shape);
  return 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

template <typename T>
Kernel MatmulKernel(const Sizes& s) {
  return {.run = [s](const KernelArgs& args) {
    Gemm(s.transpose_a, s.transpose_b, s.m, s.n, s.k, args.In<T>(0), args.In<T>(1), args.Out<T>(0));
  }};
}

Kernel MatmulCpu(const KernelSpec& spec) {
  const Sizes s = SizesOf(spec.attrs, spec.operands[0].local.shape, spec.operands[1].local.shape);
  return spec.results[0].local.dtype == F64 ? MatmulKernel<double>(s) : MatmulKernel<float>(s);
}

const std::vector<OpRow>& Rows() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "matmul",
       .doc = "C[m,n] = sum_k A[m,k] B[k,n]; transposed operands are stored the other way",
       .num_operands = 2,
       .attrs = {{"transpose_a", AttrKind::kBool, false}, {"transpose_b", AttrKind::kBool, false}},
       .infer = InferMatmul,
       .rule = MatmulRule,
       .grad = MatmulGrad,
       .flops = MatmulFlops,
       .cpu = MatmulCpu,
       .samples = {"f32[4,6], f32[6,8]", "f64[6,4], f64[6,8]; transpose_a=true",
                   "f64[4,6], f64[8,6]; transpose_b=true",
                   "f32[6,4], f32[8,6]; transpose_a=true transpose_b=true"}},
  };
  return *rows;
}

}  // namespace

std::span<const OpRow> MatmulOps() { return Rows(); }

Value MatMul(const Operand& a, const Operand& b, bool transpose_a, bool transpose_b) {
  return AddOp("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

}  // namespace meshwork
