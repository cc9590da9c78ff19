// Chains of elementwise rows, of which a single row is the shortest.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/kernels/cuda/cuda_kernel.h"
#include "meshwork/kernels/cuda/scalars.h"
#include "meshwork/kernels/cuda/text.h"

namespace meshwork {
namespace cuda {
namespace {

// An operand of the chain, as some op reads it.
struct ChainOperand {
  Type type;
  Shape strides;  // along the dims of the results
};

std::vector<ChainOperand> OperandsOf(std::span<const CudaChainOp> ops, const Shape& shape) {
  std::vector<ChainOperand> operands;
  for (const CudaChainOp& op : ops) {
    for (size_t o = 0; o < op.operands.size(); ++o) {
      if (op.operands[o].is_op) continue;
      const auto at = static_cast<size_t>(op.operands[o].index);
      if (operands.size() <= at) operands.resize(at + 1);
      const Type& type = op.spec->operands[o].local;
      operands[at] = {type, BroadcastStrides(type.shape, shape)};
    }
  }
  return operands;
}

// "const float v2 = …;" by the op's expression, which names its operands and T.
std::string LinesOf(const CudaChainOp& op, size_t index) {
  const DType first = op.spec->operands[0].local.dtype, result = op.spec->results[0].local.dtype;
  std::string lines =
      fmt::format("{} v{};\n{{\n  typedef {} T;\n", ComputeName(result), index, ComputeName(first));
  const bool is_unary = op.operands.size() == 1;
  for (size_t o = 0; o < op.operands.size(); ++o) {
    const std::string name = is_unary ? "x" : std::string(1, static_cast<char>('a' + o));
    lines += fmt::format("  const {} {} = {}{};\n", ComputeName(op.spec->operands[o].local.dtype), name,
                         op.operands[o].is_op ? 'v' : 'x', op.operands[o].index);
  }
  const std::string number = ScalarOf(*op.row, *op.spec).value();
  // As if it had been stored and read again.
  const bool is_rounded = result == BF16 || result == F16;
  lines += fmt::format("  v{} = {};\n}}\n", index,
                       is_rounded ? Loaded(result, Rounded(result, number))
                                  : fmt::format("({})({})", ComputeName(result), number));
  return lines;
}

}  // namespace
}  // namespace cuda

bool IsCudaChainOp(const OpRow& row) { return cuda::HasScalar(row); }

CudaKernel MakeCudaChain(std::span<const CudaChainOp> ops, std::span<const int> stored) {
  using namespace cuda;  // NOLINT(google-build-using-namespace)
  const Shape& shape = ops[0].spec->results[0].local.shape;
  const std::vector<ChainOperand> operands = OperandsOf(ops, shape);
  KernelText text{.name = ops.size() == 1 ? ops[0].row->name : "chain", .in = {}, .out = {}, .body = {}};
  std::vector<Shape> strides;
  for (const ChainOperand& operand : operands) {
    text.in.push_back(operand.type);
    strides.push_back(operand.strides);
  }
  const Walk walk = Walk::Of(shape, strides);
  std::string lines = walk.Places("i");
  for (size_t o = 0; o < operands.size(); ++o) {
    const DType dtype = operands[o].type.dtype;
    lines += fmt::format("const {} x{} = {};\n", ComputeName(dtype), o,
                         Loaded(dtype, fmt::format("a{}[{}]", o, walk.Offset(o, "i"))));
  }
  for (size_t i = 0; i < ops.size(); ++i) lines += LinesOf(ops[i], i);
  for (size_t r = 0; r < stored.size(); ++r) {
    const Type& type = ops[static_cast<size_t>(stored[r])].spec->results[0].local;
    text.out.push_back(type);
    lines += fmt::format("r{}[i] = {};\n", r, Rounded(type.dtype, fmt::format("v{}", stored[r])));
  }
  // Who fuses ops may write a result over an operand of any of them.
  text.in_place = true;
  return ForEach(std::move(text), NumElements(shape), lines);
}

}  // namespace meshwork
