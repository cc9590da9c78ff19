// Reductions to few results, which are made by two kernels.
#include <string_view>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/layout/block.h"
#include "meshwork/tools/check/double_tensor.h"
#include "ops/kernels/cuda/trials.h"

namespace meshwork {
namespace {

CudaTrial SplitTrial(std::string_view name, const Type& type, const std::vector<int64_t>& dims) {
  const OpRow& row = GetOp(name);
  KernelSpec spec{.operands = {{type, type}}, .results = {}, .attrs = {{"dims", dims}, {"keep_dims", false}}};
  const Type result = InferTypes(row, std::vector<Type>{type}, spec.attrs).value()[0];
  spec.results = {{result, result}};
  Sampler sampler(8);
  return {std::string(name),
          &row,
          spec,
          MakeCudaKernel(row, spec, 16).value(),
          {ToBytes(sampler.Draw(type, GetOp("add")))},
          {WholeBlock(type.shape)},
          {WholeBlock(result.shape)}};
}

}  // namespace

std::vector<CudaTrial> SplitTrials() {
  return {
      SplitTrial("reduce_sum", {F32, {200, 1000}}, {0, 1}),
      SplitTrial("reduce_mean", {F32, {3, 70001}}, {1}),
      SplitTrial("reduce_max", {BF16, {140000}}, {0}),
      SplitTrial("reduce_sum", {F32, {5000, 40}}, {0}),
      SplitTrial("reduce_mean", {BF16, {3000, 3, 33}}, {0}),
      SplitTrial("reduce_min", {I64, {4096, 37}}, {0}),
      SplitTrial("reduce_any", {BOOL, {2, 1500, 64}}, {1}),
      SplitTrial("reduce_sum", {F64, {5, 1500, 30}}, {0, 1}),
      // The elements of a result lie in runs apart.
      SplitTrial("reduce_sum", {F32, {40, 3, 2000}}, {0, 2}),
  };
}

}  // namespace meshwork
