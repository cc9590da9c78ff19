// The list of GPUs, of a simulation and in builds without CUDA.
#include "meshwork/runtime/cuda/gpus.h"

#include "gtest/gtest.h"

#ifdef MESHWORK_HAVE_CUDA
#include "runtime/cuda/gpu_fixture.h"
#endif

namespace meshwork::gpus_test {
namespace {

#ifndef MESHWORK_HAVE_CUDA

TEST(GpusTest, ABuildWithoutCudaSaysSo) {
  EXPECT_FALSE(HasCuda());
  EXPECT_EQ(ListGpus().status().code(), absl::StatusCode::kUnimplemented);
}

#else

TEST(GpusTest, AreListedWithTheirMemory) {
  EXPECT_TRUE(HasCuda());
  const SimulatedCuda cuda({.gpus = {{.name = "First", .architecture = 80, .bytes = 1000},
                                     {.name = "Second", .architecture = 103, .bytes = 2000}},
                            .driver_version = 12080});
  const auto context = CudaContext::Create(cuda.api(), 1).value();
  const auto stream = CudaStream::Create(context).value();
  const CudaBuffer x = CudaBuffer::Allocate(stream, 500).value();
  const absl::StatusOr<Gpus> found = ListGpus(cuda.api());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->driver_version, "12.8");
  EXPECT_EQ(found->cublas_version.value(), "13.0.1");
  EXPECT_EQ(found->cudnn_version.value(), "9.19.0");
  ASSERT_EQ(found->gpus.size(), 2u);
  const GpuInfo &first = found->gpus[0], &second = found->gpus[1];
  EXPECT_EQ(first.ordinal, 0);
  EXPECT_EQ(first.name, "First");
  EXPECT_EQ(first.architecture, 80);
  EXPECT_EQ(first.total_bytes, 1000);
  EXPECT_EQ(first.free_bytes, 1000);
  EXPECT_EQ(second.ordinal, 1);
  EXPECT_EQ(second.architecture, 103);
  EXPECT_EQ(second.total_bytes, 2000);
  EXPECT_EQ(second.free_bytes, 1500);
}

TEST(GpusTest, WithoutLibrariesItIsSaidWhy) {
  const SimulatedCuda cuda({.has_cublas = false, .has_cudnn = false});
  const absl::StatusOr<Gpus> found = ListGpus(cuda.api());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->cublas_version.status(), cuda.api().cublas_status);
  EXPECT_EQ(found->cudnn_version.status(), cuda.api().cudnn_status);
}

#endif

}  // namespace
}  // namespace meshwork::gpus_test
