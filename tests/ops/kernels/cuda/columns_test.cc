// One or two kernels of elementwise ops and a reduction of columns give the same results as the kernels of the ops.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "ops/kernels/cuda/chain_trials.h"

namespace meshwork::columns_test {
namespace {

// g: [64,16,n], x: [64,16,n], b: [n]: the column sums of b + g * x.
TriedChain ColumnSum(int64_t outer, int64_t n, std::vector<int> stored) {
  return {{{BF16, {outer, 16, n}}, {F32, {outer, 16, n}}, {F32, {n}}},
          {{"cast", {{"dtype", F32}}, {Given(0)}},
           {"mul", {}, {Of(0), Given(1)}},
           {"add", {}, {Of(1), Given(2)}},
           {"reduce_sum", {{"dims", ChainInts{0, 1}}, {"keep_dims", false}}, {Of(2)}}},
          std::move(stored)};
}

// In one kernel and in two; also with stored results of other ops.
TEST(CudaColumnsTest, ComputeWhatTheirOpsComputeOneByOne) {
  TryChain(ColumnSum(3, 12, {3}), ChainKind::kColumns);
  TryChain(ColumnSum(70, 132, {3}), ChainKind::kColumns);
  TryChain(ColumnSum(70, 132, {2, 0, 3}), ChainKind::kColumns);
  TryChain({{{F32, {5, 40, 8}}},
            {{"exp", {}, {Given(0)}}, {"reduce_max", {{"dims", ChainInts{1}}, {"keep_dims", true}}, {Of(0)}}},
            {0, 1}},
           ChainKind::kColumns);
}

}  // namespace
}  // namespace meshwork::columns_test
