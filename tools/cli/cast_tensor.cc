#include "tools/cli/cast_tensor.h"

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/runtime/box.h"

namespace meshwork::tools {

absl::StatusOr<Tensor> CastTensor(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  const Type &from = tensor.type(), to{dtype, tensor.shape()};
  Tensor result(to);
  MESHWORK_RETURN_IF_ERROR(result.status());
  MESHWORK_ASSIGN_OR_RETURN(const OpRow* const row, FindOp("cast"));
  const Kernel kernel =
      CpuKernelOf(*row)({.operands = {{from, from}}, .results = {{to, to}}, .attrs = {{"dtype", dtype}}});
  const void* const in = tensor.raw();
  void* const out = result.raw();
  const Block block = WholeBlock(to.shape);
  kernel.run({.in = {&in, 1},
              .out = {&out, 1},
              .in_blocks = {&block, 1},
              .out_blocks = {&block, 1},
              .begin = 0,
              .end = kernel.units});
  return result;
}

}  // namespace meshwork::tools
