// Convolutions by cuDNN, and without it, on the GPU of this machine.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda_backend/convolution_programs.h"
#include "cuda_gpu/real_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_convolutions.h"
#include "support/program_trial.h"

namespace meshwork::convolutions_test {
namespace {

class GpuConvolutionsTest : public WithRealGpu<testing::TestWithParam<ConvolutionCase>> {};

TEST_P(GpuConvolutionsTest, ComputeWhatTheCpuDoes) {
  CudaApi without = context()->api();
  without.cudnn_status = absl::FailedPreconditionError("CUDA: cuDNN is left out by this test.");
  for (const DType dtype : {F32, BF16}) {
    const RandomProgram program = ProgramOf(GetParam(), dtype);
    const Expected expected = ExpectedOf(program);
    for (const CudaApi* const api : {&context()->api(), static_cast<const CudaApi*>(&without)}) {
      const auto backend = CudaBackend::Create(CudaContext::Create(*api, 0).value()).value();
      EXPECT_EQ(TryProgram(program, expected, *backend).error(), "")
          << DTypeName(dtype) << (api == &without ? " without cuDNN" : "");
    }
  }
}

using CudnnTest = RealGpuTest;

// cuDNN has an engine for each of these, also in full f32: otherwise the slower kernels would hide a wrong request.
TEST_F(CudnnTest, TakesConvolutions) {
  if (!RealGpu().ok()) return;
  if (const absl::Status& status = context()->api().cudnn_status; !status.ok())
    GTEST_SKIP() << status.message();
  using Kind = CudaConvolution::Kind;
  CudaConvolutions convolutions(context());
  const CudaConvolution::Dim dim{.in = 28, .out = 28, .filter = 3, .low = 1, .high = 1};
  for (const Kind kind : {Kind::kForward, Kind::kInputGrad, Kind::kFilterGrad})
    for (const DType dtype : {F32, BF16})
      for (const MatmulPrecision precision : {MatmulPrecision::kFull, MatmulPrecision::kTf32})
        for (const int64_t groups : {1, 64}) {
          const auto taken = convolutions.Add({.kind = kind,
                                               .dtype = dtype,
                                               .batch = 8,
                                               .in_channels = 64,
                                               .out_channels = 64,
                                               .groups = groups,
                                               .dims = {dim, dim}},
                                              16, precision);
          ASSERT_TRUE(taken.ok()) << taken.status();
          EXPECT_TRUE(taken->has_value())
              << static_cast<int>(kind) << " " << DTypeName(dtype) << ", " << groups << " groups";
        }
}

// Sizes for which cuDNN chooses its engines for long sums and many channels.
std::vector<ConvolutionCase> LargeConvolutions() {
  return {
      {"Many", "x=1", "[8,28,28,64] {_,_,_,_}", "[3,3,64,64]", "low=[1,1] high=[1,1]"},
      {"First", "x=1", "[4,64,64,3] {_,_,_,_}", "[7,7,3,64]", "strides=[2,2] low=[3,3] high=[3,3]"},
      {"Wide", "x=1", "[8,14,14,256] {_,_,_,_}", "[3,3,256,256]", "strides=[2,2] low=[1,1] high=[1,1]"},
      {"ManyGroups", "x=1", "[4,28,28,128] {_,_,_,_}", "[3,3,4,128]", "low=[1,1] high=[1,1] groups=32"},
      {"ManyDepthwise", "x=1", "[4,28,28,96] {_,_,_,_}", "[3,3,1,96]", "low=[1,1] high=[1,1] groups=96"},
      {"Product", "x=1", "[8,28,28,256] {_,_,_,_}", "[1,1,256,64]", ""},
  };
}

INSTANTIATE_TEST_SUITE_P(Windows, GpuConvolutionsTest, testing::ValuesIn(ConvolutionCases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Large, GpuConvolutionsTest, testing::ValuesIn(LargeConvolutions()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace meshwork::convolutions_test
