// Values that are computed again where they are read.
#include "meshwork/runtime/cuda/rematerialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_backend/caught_plan.h"
#include "cuda_backend/played_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"
#include "support/program_trial.h"

namespace meshwork::rematerialize_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StepPlan RematerializedPlanOf(std::string_view text) {
  return Rematerialize(OrderForFusion(CaughtPlanOf(ParseGraph(text).value())));
}

// The ops of each kernel of elementwise ops and reductions, and the bytes of each tensor that it reads and writes.
std::vector<std::string> KernelsOf(const StepPlan& plan) {
  std::vector<std::string> kernels;
  for (const CudaGroup& group : FindCudaGroups(plan)) {
    std::vector<std::string> ops, memory;
    for (const CudaChainOp& op : group.ops) ops.emplace_back(op.row->name);
    for (const auto* buffers : {&group.operands, &group.results})
      for (const BufferId buffer : *buffers)
        memory.push_back(fmt::format("{}", plan.buffers[static_cast<size_t>(buffer)].bytes));
    kernels.push_back(fmt::format("{}: {}", fmt::join(ops, " "), fmt::join(memory, " ")));
  }
  return kernels;
}

// Each kernel reads the bf16 value, 1024 bytes; no f32 value of 2048 bytes is stored in memory.
constexpr std::string_view kNorm = R"(mesh []
func f(%x: bf16[64,8] {_,_}) {
  %c = cast %x dtype=f32
  %m = reduce_mean %c dims=[0] keep_dims=true
  %d = sub %c, %m
  %q = square %d
  %v = reduce_mean %q dims=[0] keep_dims=true
  %r = rsqrt %v
  %n = mul %d, %r
  %y = cast %n dtype=bf16
  return y=%y
})";

TEST(RematerializeTest, ANormOfColumnsReadsWhatItIsGiven) {
  EXPECT_THAT(KernelsOf(OrderForFusion(CaughtPlanOf(ParseGraph(kNorm).value()))),
              ElementsAre("cast reduce_mean: 1024 2048 32", "sub square reduce_mean: 2048 32 2048 32",
                          "mul cast: 2048 32 1024"));
  EXPECT_THAT(KernelsOf(RematerializedPlanOf(kNorm)),
              ElementsAre("cast reduce_mean: 1024 32", "cast sub square reduce_mean: 1024 32 32",
                          "cast sub mul cast: 1024 32 32 1024"));
}

// Not computed again: an operand of a product; a value as large as its operand; a value whose operand is overwritten.
TEST(RematerializeTest, WhatIsLeft) {
  const std::vector<std::string_view> texts = {R"(mesh []
func f(%x: f32[64,8] {_,_}) {
  %e = exp %x
  %m = reduce_mean %e dims=[0] keep_dims=true
  %d = sub %e, %m
  return d=%d
})",
                                               R"(mesh []
func f(%x: bf16[64,8] {_,_}, %w: f32[8,8] {_,_}) {
  %c = cast %x dtype=f32
  %p = matmul %c, %w
  return p=%p
})",
                                               R"(mesh []
func f(var %x: bf16[64,8] {_,_}, %w: f32[8,8] {_,_}) {
  %c = cast %x dtype=f32
  %p = matmul %c, %w
  %y = neg %x
  update %x = %y
  %s = add %c, %p
  return s=%s
})"};
  for (const std::string_view text : texts) {
    const StepPlan plan = OrderForFusion(CaughtPlanOf(ParseGraph(text).value()));
    EXPECT_EQ(KernelsOf(Rematerialize(plan)), KernelsOf(plan)) << text;
  }
}

// The kernel before also reads x and would absorb the cast: so the sum reads the cast that is stored for the product.
TEST(RematerializeTest, NoStepJoinsTheKernelBefore) {
  const std::vector<std::string> kernels = KernelsOf(RematerializedPlanOf(R"(mesh []
func f(%x: bf16[64,8] {_,_}, %w: f32[8,8] {_,_}) {
  %c = cast %x dtype=f32
  %p = matmul %c, %w
  %e = exp %x
  %m = reduce_max %e dims=[1] keep_dims=true
  %y = sub %e, %m
  %s = reduce_sum %c dims=[0]
  return p=%p, y=%y, s=%s
})"));
  for (const std::string& kernel : kernels) EXPECT_EQ(kernel.find("sub cast"), std::string::npos) << kernel;
}

// Also in place: the second kernel casts x again although the sum lies where the first cast lay.
TEST(RematerializeTest, NumbersAreThoseOfTheCpu) {
  const std::vector<std::string_view> texts = {kNorm, R"(mesh [x=2]
func f(%x: bf16[64,8] {x,_}, %y: bf16[64,8] {x,_}, %b: f32[8] {_}) {
  %c = cast %x dtype=f32
  %s = reduce_sum %c dims=[0] keep_dims=true
  %c1 = add %c, %b
  %t = reduce_sum %c1 dims=[0] keep_dims=true
  %e = cast %y dtype=f32
  %z = mul %c1, %e
  %u = sub %z, %s
  %v = mul %u, %t
  return v=%v, z=%z
})"};
  for (const std::string_view text : texts)
    for (uint64_t seed = 0; seed < 2; ++seed) {
      const RandomProgram program = WithFeeds(ParseGraph(text).value());
      PlayedGpu gpu(seed);
      const auto backend = gpu.MakeBackend().value();
      EXPECT_EQ(TryProgram(program, ExpectedOf(program), *backend).error(), "") << text;
      EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
    }
}

}  // namespace
}  // namespace meshwork::rematerialize_test
