// One kernel of rows with reductions gives the same results as the kernels of its ops one by one.
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/tools/check/double_tensor.h"
#include "ops/kernels/cuda/chain_trials.h"
#include "support/cuda_player.h"

namespace meshwork::rows_test {
namespace {

TriedChain Softmax(DType dtype, const Shape& shape) {
  const ChainInts last = {std::ssize(shape) - 1};
  return {{{dtype, shape}},
          {{"reduce_max", {{"dims", last}, {"keep_dims", true}}, {Given(0)}},
           {"sub", {}, {Given(0), Of(0)}},
           {"exp", {}, {Of(1)}},
           {"reduce_sum", {{"dims", last}, {"keep_dims", true}}, {Of(2)}},
           {"div", {}, {Of(2), Of(3)}}},
          {4, 0}};
}

// x: [r,n], scale, offset: [n], epsilon: [].
TriedChain LayerNorm(DType dtype, int64_t r, int64_t n) {
  const Attrs mean = {{"dims", ChainInts{1}}, {"keep_dims", true}};
  return {{{dtype, {r, n}}, {F32, {n}}, {F32, {n}}, {F32, {}}},
          {{"cast", {{"dtype", F32}}, {Given(0)}},
           {"reduce_mean", mean, {Of(0)}},
           {"sub", {}, {Of(0), Of(1)}},
           {"square", {}, {Of(2)}},
           {"reduce_mean", mean, {Of(3)}},
           {"add", {}, {Of(4), Given(3)}},
           {"rsqrt", {}, {Of(5)}},
           {"mul", {}, {Of(2), Of(6)}},
           {"mul", {}, {Of(7), Given(1)}},
           {"add", {}, {Of(8), Given(2)}},
           {"cast", {{"dtype", dtype}}, {Of(9)}}},
          {10, 2, 6}};
}

// Of logits [r,n], labels [r], a weight of each row [r] and 0 []: -log softmax, and its gradient.
TriedChain CrossEntropy(DType dtype, int64_t r, int64_t n) {
  const Attrs sum = {{"dims", ChainInts{1}}, {"keep_dims", false}};
  const Attrs spread = {{"shape", ChainInts{r, n}}, {"dims", ChainInts{0}}};
  return {{{dtype, {r, n}}, {I32, {r}}, {F32, {r}}, {F32, {}}},
          {{"cast", {{"dtype", F32}}, {Given(0)}},
           {"reduce_max", {{"dims", ChainInts{1}}, {"keep_dims", true}}, {Of(0)}},
           {"sub", {}, {Of(0), Of(1)}},
           {"exp", {}, {Of(2)}},
           {"reduce_sum", sum, {Of(3)}},
           {"one_hot", {{"depth", n}, {"dtype", BOOL}}, {Given(1)}},
           {"select", {}, {Of(5), Of(2), Given(3)}},
           {"reduce_sum", sum, {Of(6)}},
           {"log", {}, {Of(4)}},
           {"sub", {}, {Of(8), Of(7)}},
           {"mul", {}, {Of(9), Given(2)}},
           {"div", {}, {Given(2), Of(4)}},
           {"broadcast_to", spread, {Of(11)}},
           {"mul", {}, {Of(12), Of(3)}},
           {"broadcast_to", spread, {Given(2)}},
           {"select", {}, {Of(5), Of(14), Given(3)}},
           {"sub", {}, {Of(13), Of(15)}},
           {"cast", {{"dtype", dtype}}, {Of(16)}}},
          {10, 17}};
}

// Rows for a chunk, for a warp, for several warps, and rows with so many elements that they are read again.
TEST(CudaRowsTest, ComputeWhatTheirOpsComputeOneByOne) {
  for (const Shape& shape : std::vector<Shape>{{37, 51}, {1, 7}, {300, 2}, {2, 3, 64}, {5, 333}, {4, 512}})
    TryChain(Softmax(F32, shape), ChainKind::kRows);
  TryChain(Softmax(BF16, {9, 136}), ChainKind::kRows);
  TryChain(Softmax(F64, {3, 700}), ChainKind::kRows);
  TryChain(Softmax(F32, {2, 20000}), ChainKind::kRows);
  for (const int64_t n : {10, 64, 200, 1028}) TryChain(LayerNorm(BF16, 9, n), ChainKind::kRows);
  TryChain(LayerNorm(F32, 3, 8190), ChainKind::kRows);
  TryChain(CrossEntropy(F32, 40, 10), ChainKind::kRows);
  TryChain(CrossEntropy(F32, 3, 260), ChainKind::kRows);
  TryChain(CrossEntropy(BF16, 2, 20008), ChainKind::kRows);
  // Rows of several rounds of chunks, the last one not whole, in shared memory.
  TryChain(CrossEntropy(BF16, 2, 20008), ChainKind::kRows, {kAllShared, true});
  TryChain(Softmax(F32, {2, 18001}), ChainKind::kRows, {kAllShared, true});
}

// A block has many short rows, which would all be kept at one place.
TEST(CudaRowsTest, OnlyARowWithItsOwnBlockIsKeptInSharedMemory) {
  TriedChain chain = {{}, {}, {9, 10, 11}};
  for (int o = 0; o < 10; ++o) {
    chain.types.push_back({F64, {40, 7}});
    if (o > 0) chain.ops.push_back({"add", {}, {o == 1 ? Given(0) : Of(o - 2), Given(o)}});
  }
  chain.types.push_back({BOOL, {40, 7}});
  chain.ops.push_back({"select", {}, {Given(10), Of(8), Given(0)}});
  chain.ops.push_back({"reduce_sum", {{"dims", ChainInts{1}}, {"keep_dims", true}}, {Of(9)}});
  chain.ops.push_back({"mul", {}, {Of(9), Of(10)}});
  TryChain(chain, ChainKind::kRows, {kAllShared, false});
}

// Any of the reductions; whole numbers and bools.
TEST(CudaRowsTest, FoldWhatRowsFold) {
  const Attrs sum = {{"dims", ChainInts{1, 2}}, {"keep_dims", false}};
  TryChain({{{I32, {7, 3, 50}}, {I32, {}}},
            {{"mul", {}, {Given(0), Given(1)}},
             {"reduce_sum", sum, {Of(0)}},
             {"reduce_min", sum, {Of(0)}},
             {"greater", {}, {Of(0), Given(1)}},
             {"reduce_any", sum, {Of(3)}},
             {"reduce_all", sum, {Of(3)}},
             {"reduce_prod", sum, {Of(0)}},
             {"sub", {}, {Of(1), Of(2)}}},
            {7, 4, 5, 6, 0}},
           ChainKind::kRows);
}

TEST(CudaRowsTest, AResultMayLieInAnOperand) {
  TriedChain chain = Softmax(F32, {6, 300});
  chain.stored = {4};
  const ChainSpecs specs(chain, false);
  for (const int64_t alignment : {1, 16}) {
    const CudaKernel kernel = MakeCudaRows(specs.ops, chain.stored, alignment);
    const auto kernels = PlayCuda(CudaSourceOf({&kernel, 1})).value();
    Sampler sampler(3);
    const ChainBytes x = ToBytes(sampler.Draw(chain.types[0], GetOp("add")));
    ChainBytes operand = x, result(x.size()), in_place = x;
    LaunchChain(*kernels, kernel, {&operand, &result});
    LaunchChain(*kernels, kernel, {&in_place, &in_place});
    EXPECT_TRUE(in_place == result);
  }
}

}  // namespace
}  // namespace meshwork::rows_test
