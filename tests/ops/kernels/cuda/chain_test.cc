// One kernel of several elementwise rows gives the same results as the rows' kernels one by one.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/tools/check/double_tensor.h"
#include "ops/kernels/cuda/chain_trials.h"
#include "support/cuda_player.h"

namespace meshwork::chain_test {
namespace {

const std::vector<TriedChain>& Chains() {
  static const auto* const chains = new std::vector<TriedChain>{
      // A layer's bias and activation, broadcast; both results are kept.
      {{{F32, {37, 51}}, {F32, {51}}},
       {{"add", {}, {Given(0), Given(1)}}, {"gelu", {{"tanh", true}}, {Of(0)}}},
       {0, 1}},
      // Intermediate values in bf16 are rounded; the first operand is read twice.
      {{{BF16, {4, 6}}, {BF16, {4, 1}}, {BF16, {}}},
       {{"mul", {}, {Given(0), Given(1)}},
        {"sub", {}, {Of(0), Given(2)}},
        {"exp", {}, {Of(1)}},
        {"div", {}, {Given(0), Of(2)}}},
       {3}},
      // Through other dtypes and a condition.
      {{{F32, {3, 100}}, {I32, {100}}},
       {{"cast", {{"dtype", F32}}, {Given(1)}},
        {"greater", {}, {Given(0), Of(0)}},
        {"select", {}, {Of(1), Given(0), Of(0)}}},
       {2, 1}},
      // Rows of whole Packs, of types of several sizes.
      {{{F32, {37, 52}}, {F32, {52}}, {BF16, {37, 1}}, {BOOL, {37, 52}}},
       {{"add", {}, {Given(0), Given(1)}},
        {"cast", {{"dtype", F32}}, {Given(2)}},
        {"select", {}, {Given(3), Of(0), Of(1)}},
        {"cast", {{"dtype", BF16}}, {Of(2)}}},
       {0, 3}},
      // A tail behind the last Pack; fewer elements than a Pack has.
      {{{BF16, {1003}}, {BF16, {}}}, {{"mul", {}, {Given(0), Given(1)}}, {"neg", {}, {Of(0)}}}, {1, 0}},
      {{{BOOL, {5}}}, {{"and", {}, {Given(0), Given(0)}}, {"not", {}, {Of(0)}}}, {1}},
      // Two Packs for each thread, and a tail.
      {{{F32, {1200003}}}, {{"cast", {{"dtype", BF16}}, {Given(0)}}}, {0}},
      // Blocks in the middle are repeated.
      {{{F64, {3, 1, 8}}, {F64, {1, 5, 8}}, {F64, {3, 5, 1}}},
       {{"mul", {}, {Given(0), Given(1)}}, {"add", {}, {Of(0), Given(2)}}},
       {1}},
      {{{F32, {4, 8}}},
       {{"broadcast_to", {{"shape", ChainInts{4, 8}}, {"dims", ChainInts{0, 1}}}, {Given(0)}},
        {"exp", {}, {Of(0)}}},
       {1}},
      // Marks and spreads.
      {{{F32, {52, 52}}, {I32, {52}}, {F32, {52}}},
       {{"one_hot", {{"depth", int64_t{52}}, {"dtype", BOOL}}, {Given(1)}},
        {"broadcast_to", {{"shape", ChainInts{52, 52}}, {"dims", ChainInts{0}}}, {Given(2)}},
        {"select", {}, {Of(0), Given(0), Of(1)}}},
       {2, 0}},
      // No elements.
      {{{F64, {0, 3}}}, {{"square", {}, {Given(0)}}, {"neg", {}, {Of(0)}}}, {1}},
  };
  return *chains;
}

TEST(CudaChainTest, ComputesWhatItsOpsComputeOneByOne) {
  for (const TriedChain& chain : Chains()) TryChain(chain, ChainKind::kChain);
}

// Elements are read and written 16 bytes at a time if they are aligned.
TEST(CudaChainTest, ReadsPacksWhereItMay) {
  const auto alignment_of = [](const TriedChain& chain, int64_t alignment) {
    const ChainSpecs specs(chain);
    return MakeCudaChain(specs.ops, chain.stored, alignment).alignment;
  };
  const std::vector<TriedChain>& chains = Chains();
  EXPECT_EQ(alignment_of(chains[0], 16), 1);  // rows of 51
  EXPECT_EQ(alignment_of(chains[3], 16), 16);
  EXPECT_EQ(alignment_of(chains[3], 8), 8);
  EXPECT_EQ(alignment_of(chains[3], 1), 1);
}

TEST(CudaChainTest, AResultMayLieInAnOperand) {
  const TriedChain chain = {
      {{F32, {300}}, {F32, {300}}}, {{"add", {}, {Given(0), Given(1)}}, {"mul", {}, {Of(0), Given(1)}}}, {1}};
  const ChainSpecs specs(chain);
  const CudaKernel kernel = MakeCudaChain(specs.ops, chain.stored);
  const auto kernels = PlayCuda(CudaSourceOf({&kernel, 1})).value();
  DoubleTensor a{chain.types[0], {}}, b = a;
  for (int i = 0; i < 300; ++i) a.values.push_back(i), b.values.push_back(2);
  ChainBytes first = ToBytes(a), second = ToBytes(b);
  LaunchChain(*kernels, kernel, {&first, &second, &first});
  const DoubleTensor result = FromBytes(chain.types[0], first.data());
  for (int i = 0; i < 300; ++i) EXPECT_EQ(result.values[static_cast<size_t>(i)], 2.0 * (i + 2));
}

}  // namespace
}  // namespace meshwork::chain_test
