// Products with quantised matrices. The kernel is in ops/kernels/blas/matmul_q.cc.
#include "meshwork/ops/matmul_q.h"

#include <optional>
#include <string>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/blocks_of_32.h"
#include "meshwork/ops/kernels/stack.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

constexpr std::string_view kNamesOfBatchDims = "abcdefghijlopqrstuvwxyz";  // all but those of m, k and n

// Checks blocks: q […,K,32] or […,K,16], scale and, if it is not null, zero […,K].
absl::Status CheckBlocks(const Type& q, const Type& scale, const Type* zero) {
  const int64_t bytes = BytesOfBlock(q.dtype);
  if (bytes == 0)
    return InvalidArgument("q is {}; it must be i8, or u8 with two numbers of 4 bits in each.", q.ToString());
  if (q.rank() < 2 || q.shape.back() != bytes)
    return InvalidArgument("q is {}; a block of 32 numbers is {}[{}]: give {}[…,K,{}].", q.ToString(),
                           DTypeName(q.dtype), bytes, DTypeName(q.dtype), bytes);
  const Type per_block{F16, Shape(q.shape.begin(), q.shape.end() - 1)};
  if (scale != per_block)
    return InvalidArgument("q is {}, and scale is {}; each block has one scale: give {}.", q.ToString(),
                           scale.ToString(), per_block.ToString());
  if (zero != nullptr && *zero != per_block)
    return InvalidArgument("q is {}, and zero is {}; each block has one zero: give {}, or none.",
                           q.ToString(), zero->ToString(), per_block.ToString());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferMatmulQ(const OpView& view) {
  const Type &x = view.operands[0], &q = view.operands[1];
  MESHWORK_RETURN_IF_ERROR(
      CheckBlocks(q, view.operands[2], view.operands.size() > 3 ? &view.operands[3] : nullptr));
  if (!IsFloat(x.dtype))
    return InvalidArgument("x is {}; it must be f32, f64 or bf16: cast it.", x.ToString());
  if (q.rank() != 3)
    return InvalidArgument("q is {}; it must be one matrix, [n,K,{}].", q.ToString(), q.shape.back());
  if (x.rank() < 3 || x.shape.back() != kBlockNumbers || x.shape.end()[-2] != q.shape[1])
    return InvalidArgument("x is {} and q {}; x must be […,m,{},{}], its k in blocks of 32 as q's.",
                           x.ToString(), q.ToString(), q.shape[1], kBlockNumbers);
  Type result{x.dtype, Shape(x.shape.begin(), x.shape.end() - 2)};
  result.shape.push_back(q.shape[0]);
  return std::vector<Type>{result};
}

// "abmk1,nk1,nk,nk->abmn", where k is the number of blocks.
Rule MatmulQRule(const OpView& view) {
  const size_t batch = view.operands[0].shape.size() - 3;
  const std::string rows = std::string(kNamesOfBatchDims.substr(0, batch)) + "m";
  return MakeRule(rows + "k1,nk1,nk" + (view.operands.size() > 3 ? ",nk" : "") + "->" + rows + "n",
                  view.operands, view.results, Linear(Which::kFirst));
}

std::vector<Value> MatmulQGrad(const GradView& view) {
  const Value &x = view.operands[0], &g = view.result_grads[0];
  // Not rounded to bf16 before it is multiplied.
  const DType dtype = WideDType(x.dtype());
  const Value w = DequantizeMatrix(view.operands[1], view.operands[2],
                                   view.operands.size() > 3 ? view.operands[3] : Value());
  const Value product = MatMul(InDType(g, dtype), InDType(w, dtype));
  std::vector<Value> grads(view.operands.size());
  grads[0] = InDType(Reshape(product, x.shape()), x.dtype());
  return grads;
}

double MatmulQFlops(const OpView& view) {
  return 2.0 * static_cast<double>(view.operands[0].num_elements()) *
         static_cast<double>(view.operands[1].shape[0]);
}

// The parts of a matrix lie alike: instances that differ in one of them differ in all.
std::optional<KernelSpec> StackMatmulQ(const KernelSpec& spec, const StackDims& dims) {
  for (const StackDim& dim : dims) {
    if (dim.reduced.has_value() && dim.reduced != ReduceOp::kSum) return std::nullopt;
    for (size_t o = 2; o < dim.varies.size(); ++o)
      if (dim.varies[o] != dim.varies[1]) return std::nullopt;
  }
  return Stacked(spec, dims);
}

// x: f32 […,K,16], whole numbers from 0 to 255 -> […,K,32]: their low halves, then their high halves.
Value Halves(const Value& x) {
  const Value high = Floor(Mul(x, 1.0 / 16));
  return Concat({Sub(x, Mul(high, 16.0)), high}, x.rank() - 1);
}

}  // namespace

std::span<const OpRow> MatmulQOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "matmul_q",
       .doc =
           "C[…,m,n] = sum_K,i X[…,m,K,i] W[n,K,i], i < 32; W[n,K,i] = scale[n,K] q[n,K,i] + zero[n,K]; q: i8[n,K,32], "
           "or u8[n,K,16]: byte j has number j in its low half, j + 16 in its high half; without a 4th operand zero is 0",
       .num_operands = 3,
       .optional_operands = 1,
       .takes_storage = true,
       .infer = InferMatmulQ,
       .rule = MatmulQRule,
       .grad = MatmulQGrad,
       .flops = MatmulQFlops,
       .stack = StackMatmulQ,
       .is_product = true,
       .samples = {"f32[4,3,32], i8[6,3,32], f16[6,3]", "f32[4,3,32], u8[6,3,16], f16[6,3], f16[6,3]",
                   "f64[4,2,32], u8[6,2,16], f16[6,2]", "bf16[6,2,32], u8[4,2,16], f16[4,2], f16[4,2]",
                   "f64[2,3,2,32], i8[4,2,32], f16[4,2], f16[4,2]",
                   "f32[1,4,32], u8[5,4,16], f16[5,4], f16[5,4]"},
       .sample_int_low = -100,
       .sample_int_high = 128},
  };
  return *rows;
}

Value MatMulQ(const Operand& x, const Operand& q, const Operand& scale, const Value& zero) {
  std::vector<Operand> operands = {x, q, scale};
  if (zero.valid()) operands.emplace_back(zero, x.location());
  const ResolvedOperands at = Resolve(operands);
  if (at.graph == nullptr) return {};
  const Type &of_x = at.values[0].type(), &of_q = at.values[1].type();
  if (of_x.rank() < 2 || of_q.rank() != 3 || of_x.shape.back() != kBlockNumbers * of_q.shape[1]) {
    RecordMistake(
        at, "matmul_q",
        "x is {} and q {}; x must be […,m,k] and q [n,K,32] or [n,K,16], one matrix, with k = 32 K.",
        of_x.ToString(), of_q.ToString());
    return {};
  }
  Shape blocks = of_x.shape;
  blocks.back() = of_q.shape[1];
  blocks.push_back(kBlockNumbers);
  operands[0] = Operand(Reshape(Operand(at.values[0], x.location()), blocks), x.location());
  return AddOp("matmul_q", operands);
}

Value DequantizeMatrix(const Operand& q, const Operand& scale, const Value& zero) {
  std::vector<Operand> operands = {q, scale};
  if (zero.valid()) operands.emplace_back(zero, q.location());
  const ResolvedOperands at = Resolve(operands);
  if (at.graph == nullptr) return {};
  const Type& of_q = at.values[0].type();
  const absl::Status status =
      CheckBlocks(of_q, at.values[1].type(), zero.valid() ? &at.values[2].type() : nullptr);
  if (!status.ok()) {
    RecordMistake(at, "dequantize_matrix", "{}", MessageOf(status));
    return {};
  }
  const auto of_blocks = [&](size_t i) {
    return ExpandDims(Cast(Operand(at.values[i], q.location()), F32), {of_q.rank() - 1});
  };
  Value x = Cast(Operand(at.values[0], q.location()), F32);
  if (of_q.dtype == U8) x = Halves(x);
  x = Mul(x, of_blocks(1));
  if (zero.valid()) x = Add(x, of_blocks(2));
  Shape shape = of_q.shape;
  shape.pop_back();
  shape.back() *= kBlockNumbers;
  return Reshape(x, shape);
}

}  // namespace meshwork
