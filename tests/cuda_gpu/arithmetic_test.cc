// Rounding and arithmetic by the instructions of this machine's GPU agree with the prelude's formulas.
#include <gtest/gtest.h>

#include <array>

#include "cuda_gpu/real_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_module.h"
#include "ops/kernels/cuda/arithmetic_trials.h"

namespace meshwork::arithmetic_test {
namespace {

using GpuArithmeticTest = RealGpuTest;

TEST_F(GpuArithmeticTest, InstructionsAgreeWithFormulas) {
  CudaSource source{.name = "arithmetic.cu", .text = ArithmeticSource()};
  for (const std::string_view option : kCudaOptions) source.options.emplace_back(option);
  const auto module = CudaModule::Compile(context(), source);
  ASSERT_TRUE(module.ok()) << module.status();
  const std::shared_ptr<const CudaStream> stream = CudaStream::Create(context()).value();
  using Numbers = std::array<unsigned, std::size(kArithmeticTrials)>;
  std::array<Numbers, 2> found{};  // counts, examples
  const CudaBuffer buffer = CudaBuffer::Allocate(stream, sizeof(found)).value();
  ASSERT_TRUE(CopyToDevice(*stream, buffer.address(), found.data(), buffer.bytes()).ok());
  KernelArguments arguments;
  auto* const memory = reinterpret_cast<std::byte*>(buffer.address());
  arguments.Add(memory);
  arguments.Add(memory + sizeof(Numbers));
  arguments.Add(static_cast<long long>(1 << 24));
  const CudaFunction tries = (*module)->GetKernel("tries").value();
  const absl::Status launched =
      tries.Launch(*stream, {.grid = {kArithmeticBlocks}, .block = {kArithmeticThreads}}, arguments);
  ASSERT_TRUE(launched.ok()) << launched;
  ASSERT_TRUE(CopyToHost(*stream, found.data(), buffer.address(), buffer.bytes()).ok());
  const absl::Status ran = stream->Synchronize();
  ASSERT_TRUE(ran.ok()) << ran;
  for (size_t t = 0; t < found[0].size(); ++t)
    EXPECT_EQ(found[0][t], 0u) << fmt::format("{}, of {:#x}", kArithmeticTrials[t], found[1][t]);
}

}  // namespace
}  // namespace meshwork::arithmetic_test
