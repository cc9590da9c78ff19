// Convolutions by the simulated cuDNN, as meshwork calls it, give the results of the row's CPU kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cuda_backend/convolution_programs.h"
#include "cuda_backend/played_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/sample.h"
#include "meshwork/ops/kernels/cuda/cuda_convolution.h"
#include "meshwork/ops/kernels/cuda/cuda_product.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_convolutions.h"
#include "support/program_trial.h"

namespace meshwork::convolutions_test {
namespace {

using ::testing::IsEmpty;

class CudaConvolutionsTest : public testing::TestWithParam<ConvolutionCase> {};

TEST_P(CudaConvolutionsTest, ComputeWhatTheCpuDoes) {
  // In f32, cuDNN has no engine for every second convolution, so that meshwork's kernels compute these.
  for (const auto& [dtype, libraries] : {std::pair(BF16, SimulatedCudaOptions{}),
                                         std::pair(F32, SimulatedCudaOptions{.declined_convolutions = 2})}) {
    const RandomProgram program = ProgramOf(GetParam(), dtype);
    PlayedGpu gpu(0, libraries);
    const auto backend = gpu.MakeBackend().value();
    EXPECT_EQ(TryProgram(program, ExpectedOf(program), *backend).error(), "") << DTypeName(dtype);
    EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
    const bool is_product = GetParam().name == "OnePosition" || GetParam().name == "ProductsOfTwoDevices";
    EXPECT_EQ(gpu.cuda.num_convolutions() > 0, !is_product && GetParam().name != "NegativePadding");
    EXPECT_EQ(gpu.cuda.num_products() >= 3, is_product);
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, CudaConvolutionsTest, testing::ValuesIn(ConvolutionCases()),
                         [](const auto& info) { return info.param.name; });

// In f32 without TF32, no engine with tensor cores is chosen: numbers of more than ten bits are not rounded.
TEST(CudaConvolutionTest, Tf32IsTakenWhereItIsAskedFor) {
  const CudaConvolution convolution{
      .batch = 2,
      .in_channels = 4,
      .out_channels = 4,
      .dims = {{.in = 4, .out = 2, .filter = 3}, {.in = 4, .out = 2, .filter = 3}}};
  const auto run = [&](MatmulPrecision precision) {
    SimulatedCuda cuda;
    const auto context = CudaContext::Create(cuda.api(), 0).value();
    const auto stream = CudaStream::Create(context).value();
    CudaConvolutions convolutions(context);
    const TakenConvolution taken = convolutions.Add(convolution, 16, precision).value().value();
    std::vector<float> x(128), w(144), y(32);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 1 + static_cast<float>(i) / 4096;
    for (size_t i = 0; i < w.size(); ++i) w[i] = 1 - static_cast<float>(i) / 8192;
    const CudaBuffer to_x = CudaBuffer::Allocate(stream, 512).value(),
                     to_w = CudaBuffer::Allocate(stream, 576).value(),
                     to_y = CudaBuffer::Allocate(stream, 128).value(),
                     workspace = CudaBuffer::Allocate(stream, taken.workspace_bytes).value();
    EXPECT_TRUE(CopyToDevice(*stream, to_x.address(), x.data(), 512).ok());
    EXPECT_TRUE(CopyToDevice(*stream, to_w.address(), w.data(), 576).ok());
    EXPECT_TRUE(convolutions
                    .Launch(*stream, taken.number, {to_x.address(), to_w.address(), to_y.address()},
                            workspace.address())
                    .ok());
    EXPECT_TRUE(CopyToHost(*stream, y.data(), to_y.address(), 128).ok());
    EXPECT_TRUE(stream->Synchronize().ok());
    EXPECT_THAT(cuda.TakeFindings(), IsEmpty());
    return y;
  };
  const std::vector<float> full = run(MatmulPrecision::kFull), tf32 = run(MatmulPrecision::kTf32);
  double exact = 0;
  for (int64_t k = 0; k < 36; ++k) {
    const int64_t place = k / 12 * 16 + k % 12;  // row, then column and channel
    exact += (1 + static_cast<double>(place) / 4096) * (1 - static_cast<double>(k) / 8192);
  }
  EXPECT_FLOAT_EQ(full[0], static_cast<float>(exact));
  EXPECT_NE(tf32[0], full[0]);
  EXPECT_NEAR(tf32[0], full[0], 0.05);
}

// If cuDNN does not start, as without one of its libraries, meshwork's kernels make the convolutions. One line says so.
TEST(CudaConvolutionTest, WhatDoesNotStartIsLeftOutAndReported) {
  const RandomProgram program = ProgramOf(ConvolutionCases()[0], F32);
  const Expected expected = ExpectedOf(program);
  std::vector<std::string> reported;
  for (int time = 0; time < 2; ++time) {
    PlayedGpu gpu(1);
    CudaApi api = gpu.cuda.api();
    api.report = [&](std::string_view line) { reported.emplace_back(line); };
    gpu.cuda.FailCall("cudnnCreate", 1);
    const auto backend = CudaBackend::Create(CudaContext::Create(api, 0).value()).value();
    EXPECT_EQ(TryProgram(program, expected, *backend).error(), "");
    EXPECT_EQ(gpu.cuda.num_convolutions(), 0);
  }
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_THAT(reported[0], testing::HasSubstr("cuDNN 9.19.0: starting for a convolution"));
}

// Whichever call of cuDNN fails: another engine, the row's own kernel, or a status that names the op; and no leaks.
TEST(CudaConvolutionTest, AnyCallMayFail) {
  const RandomProgram program = ProgramOf(ConvolutionCases()[0], F32);
  const Expected expected = ExpectedOf(program);
  PlayedGpu gpu(1);
  for (const char* function :
       {"cudnnDestroy", "cudnnSetStream", "cudnnBackendCreateDescriptor", "cudnnBackendDestroyDescriptor",
        "cudnnBackendFinalize", "cudnnBackendSetAttribute", "cudnnBackendGetAttribute",
        "cudnnBackendExecute"}) {
    const bool launches =
        std::string_view(function) == "cudnnSetStream" || std::string_view(function) == "cudnnBackendExecute";
    int failed = 0;
    for (int64_t nth = 1; nth < 1000; nth += 1 + nth / 3) {
      gpu.cuda.FailCall(function, nth);
      {
        const auto backend = gpu.MakeBackend().value();
        const Trial trial = TryProgram(program, expected, *backend);
        if (gpu.cuda.failed_call().empty()) break;
        EXPECT_EQ(trial.wrong, "") << function << ", call " << nth;
        if (launches) {
          EXPECT_THAT(trial.rejected, testing::HasSubstr("cuDNN 9.19.0: launching")) << function;
        }
      }
      ++failed;
      EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty()) << function << ", call " << nth;
      EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty()) << function << ", call " << nth;
    }
    EXPECT_GT(failed, 0) << function;
  }
}

}  // namespace
}  // namespace meshwork::convolutions_test
