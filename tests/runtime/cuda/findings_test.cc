// Mistakes that the simulated GPU finds, and that CUDA may not notice.
#ifdef MESHWORK_HAVE_CUDA
#include "gmock/gmock.h"
#include "runtime/cuda/gpu_fixture.h"

namespace meshwork::findings_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(GpuFindingsTest, FreshMemoryIsNan) {
  const GpuPlayer gpu;
  const CudaBuffer x = gpu.NewBuffer(3);
  std::vector<float> host(3);
  ASSERT_TRUE(CopyToHost(*gpu.stream, host.data(), x.address(), x.bytes()).ok());
  for (const float value : host) EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(FirstOf(gpu.NewPinned(1))));
  EXPECT_EQ(x.address() % 256, 0u);
}

TEST(GpuFindingsTest, CopiesOfFreedMemory) {
  GpuPlayer gpu;
  CudaBuffer x = gpu.NewBuffer(4), y = gpu.NewBuffer(4);
  const CUdeviceptr address = x.address();
  x = CudaBuffer();
  EXPECT_FALSE(CopyOnDevice(*gpu.stream, y.address(), address, 16).ok());
  EXPECT_FALSE(Fill(*gpu.stream, address, std::byte{0}, 16).ok());
  EXPECT_THAT(
      gpu.cuda.TakeFindings(),
      ElementsAre("a copy within GPU 0 uses allocation 1 (16 bytes, memory of GPU 0) after it was freed.",
                  "a fill on GPU 0 uses allocation 1 (16 bytes, memory of GPU 0) after it was freed."));
}

// The copy came first, on another stream, and the free did not wait for it.
TEST(GpuFindingsTest, CopiesThatAreOvertakenByTheFree) {
  int found = 0, not_found = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    GpuPlayer gpu(seed);
    const auto other = gpu.NewStream();
    CudaBuffer x = gpu.NewBuffer(4);
    const PinnedBuffer host = gpu.NewPinned(4);
    ASSERT_TRUE(gpu.stream->Synchronize().ok());
    ASSERT_TRUE(CopyToHost(*other, host.data(), x.address(), 16).ok());
    x = CudaBuffer();
    const bool is_found = !gpu.cuda.TakeFindings().empty();
    EXPECT_EQ(gpu.context->Synchronize().ok(), !is_found);
    ++(is_found ? found : not_found);
  }
  EXPECT_GT(found, 0);
  EXPECT_GT(not_found, 0);
}

TEST(GpuFindingsTest, MemoryThatIsUsedBeforeItsStreamHasAllocatedIt) {
  int found = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    GpuPlayer gpu(seed);
    const auto other = gpu.NewStream();
    const CudaBuffer x = gpu.NewBuffer(4);
    ASSERT_TRUE(Fill(*other, x.address(), std::byte{1}, 16).ok());
    for (const std::string& finding : gpu.cuda.TakeFindings()) {
      EXPECT_THAT(finding, HasSubstr("before its stream has allocated it."));
      ++found;
    }
  }
  EXPECT_GT(found, 0);
  EXPECT_LT(found, 50);
}

TEST(GpuFindingsTest, KernelsThatAreGivenFreedMemory) {
  GpuPlayer gpu;
  CudaBuffer x = gpu.NewBuffer(4);
  const CUdeviceptr address = x.address();
  x = CudaBuffer();
  EXPECT_TRUE(gpu.Launch("write", *gpu.stream, Arguments(address, int64_t{4}, 1.0f)).ok());
  EXPECT_FALSE(gpu.stream->Synchronize().ok());
  EXPECT_THAT(
      gpu.cuda.TakeFindings(),
      ElementsAre("kernel write on GPU 0 uses allocation 1 (16 bytes, memory of GPU 0) after it was freed."));
}

TEST(GpuFindingsTest, KernelsThatAreGivenMemoryOfAnotherGpu) {
  GpuPlayer gpu(0, {{}, {}});
  {
    const auto second = CudaContext::Create(gpu.cuda.api(), 1).value();
    const auto stream = CudaStream::Create(second).value();
    const CudaBuffer x = CudaBuffer::Allocate(stream, 16).value();
    ASSERT_TRUE(stream->Synchronize().ok());
    EXPECT_TRUE(gpu.Launch("write", *gpu.stream, x, 1).ok());
    EXPECT_FALSE(gpu.stream->Synchronize().ok());
    EXPECT_TRUE(stream->Synchronize().ok());  // the other GPU goes on
  }
  EXPECT_THAT(
      gpu.cuda.TakeFindings(),
      ElementsAre(
          "kernel write on GPU 0 uses allocation 1 (16 bytes, memory of GPU 1) which is not its GPU's."));
}

TEST(GpuFindingsTest, KernelsWhoseModuleIsGone) {
  GpuPlayer gpu;
  const CudaBuffer x = gpu.NewBuffer(4);
  ASSERT_TRUE(gpu.Launch("write", *gpu.stream, x, 1).ok());
  gpu.module.reset();
  EXPECT_FALSE(gpu.stream->Synchronize().ok());
  EXPECT_THAT(gpu.cuda.TakeFindings(),
              ElementsAre("kernel write on GPU 0 runs after its module was unloaded."));
}

TEST(GpuFindingsTest, WritesBeyondAnAllocation) {
  GpuPlayer gpu;
  {
    const CudaBuffer x = gpu.NewBuffer(4);
    ASSERT_TRUE(gpu.Launch("write", *gpu.stream, Arguments(x.address(), int64_t{5}, 1.0f)).ok());
    ASSERT_TRUE(gpu.Launch("write", *gpu.stream, Arguments(x.address() - 4, int64_t{1}, 1.0f)).ok());
  }
  EXPECT_THAT(gpu.cuda.TakeFindings(),
              ElementsAre("something has written before allocation 1 (16 bytes, memory of GPU 0).",
                          "something has written behind allocation 1 (16 bytes, memory of GPU 0)."));
}

TEST(GpuFindingsTest, CopiesBeyondAnAllocation) {
  GpuPlayer gpu;
  const CudaBuffer x = gpu.NewBuffer(4);
  std::vector<float> host(8);
  EXPECT_FALSE(CopyToDevice(*gpu.stream, x.address() + 8, host.data(), 16).ok());
  EXPECT_FALSE(CopyToHost(*gpu.stream, host.data(), 12345, 16).ok());
  EXPECT_FALSE(CopyToHost(*gpu.stream, reinterpret_cast<void*>(x.address()), x.address(), 16).ok());
  EXPECT_THAT(gpu.cuda.TakeFindings(),
              ElementsAre("a copy to GPU 0 uses allocation 1 (16 bytes, memory of GPU 0) at bytes 8 to 24.",
                          "a copy from GPU 0 uses an address that is in no allocation.",
                          "a copy from GPU 0 is given an address of GPU 0 for one of the process."));
}

TEST(GpuFindingsTest, WritesToFreedMemory) {
  GpuPlayer gpu;
  CUdeviceptr stale = 0;
  {
    const CudaBuffer x = gpu.NewBuffer(4);
    stale = x.address();
  }
  ASSERT_TRUE(gpu.Launch("write_stale", *gpu.stream, Arguments(~uint64_t{stale})).ok());
  EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
  gpu.module.reset();
  gpu.stream.reset();
  gpu.context.reset();
  EXPECT_THAT(gpu.cuda.TakeLeaks(),
              ElementsAre("something has written to allocation 1 (16 bytes, memory of GPU 0) "
                          "after it was freed."));
}

TEST(GpuFindingsTest, MemoryThatIsFreedTwice) {
  GpuPlayer gpu;
  const CudaApi& api = gpu.cuda.api();
  const CudaContext::Scope scope(*gpu.context);
  CUdeviceptr x = 0;
  ASSERT_EQ(api.cuMemAlloc(&x, 16), CUDA_SUCCESS);
  EXPECT_EQ(api.cuMemFree(x), CUDA_SUCCESS);
  EXPECT_EQ(api.cuMemFree(x), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuMemFree(x + 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuMemFreeHost(reinterpret_cast<void*>(x)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(gpu.cuda.TakeFindings(),
              ElementsAre("allocation 1 (16 bytes, memory of GPU 0) is freed twice."));
}

TEST(GpuFindingsTest, TheDefaultStream) {
  GpuPlayer gpu;
  const CudaContext::Scope scope(*gpu.context);
  EXPECT_EQ(gpu.cuda.api().cuStreamSynchronize(nullptr), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(gpu.cuda.api().cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(gpu.cuda.TakeFindings().size(), 2u);
}

TEST(GpuFindingsTest, WhatIsLeft) {
  GpuPlayer gpu;
  EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
  {
    const CudaBuffer x = gpu.NewBuffer(4);
    const PinnedBuffer host = gpu.NewPinned(2);
    const auto event = gpu.NewEvent();
    const CudaGraph graph = CudaGraph::Capture(*gpu.stream, [] { return absl::OkStatus(); }).value();
    EXPECT_THAT(gpu.cuda.TakeLeaks(),
                UnorderedElementsAre("allocation 1 (16 bytes, memory of GPU 0) is never freed.",
                                     "allocation 2 (8 bytes, pinned memory) is never freed.",
                                     "1 stream is left.", "1 event is left.", "1 instantiated graph is left.",
                                     "1 module is left.", "the context of GPU 0 is not released."));
  }
  EXPECT_EQ(gpu.cuda.BytesInUse(0), 16);  // not freed before the stream comes to it
  EXPECT_TRUE(gpu.stream->Synchronize().ok());
  EXPECT_EQ(gpu.cuda.BytesInUse(0), 0);
  gpu.module.reset();
  gpu.stream.reset();
  gpu.context.reset();
  EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty());
}

// After a kernel has failed, all later calls fail, and memory can still be freed.
TEST(GpuFindingsTest, NothingWorksAfterAKernelThatFails) {
  GpuPlayer gpu;
  {
    const CudaBuffer x = gpu.NewBuffer(4);
    EXPECT_TRUE(gpu.Launch("fail", *gpu.stream, Arguments()).ok());
    const absl::Status status = gpu.stream->Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
    EXPECT_EQ(gpu.cuda.kernel_error(), "kernel fail on GPU 0: x[7] is read, and x has 4 elements.");
    EXPECT_FALSE(gpu.Launch("write", *gpu.stream, x, 1).ok());
    EXPECT_FALSE(CudaStream::Create(gpu.context).ok());
    EXPECT_FALSE(CudaEvent::Create(gpu.context).ok());
    EXPECT_FALSE(CudaBuffer::Allocate(gpu.stream, 4).ok());
    EXPECT_FALSE(PinnedBuffer::Allocate(gpu.context, 4).ok());
    EXPECT_FALSE(Fill(*gpu.stream, x.address(), std::byte{0}, 4).ok());
    EXPECT_FALSE(gpu.context->Synchronize().ok());
    EXPECT_FALSE(gpu.context->GetMemoryInfo().ok());
    EXPECT_FALSE(CudaGraph::Capture(*gpu.stream, [] { return absl::OkStatus(); }).ok());
    EXPECT_FALSE(CudaContext::Create(gpu.cuda.api(), 0).ok());
  }
  gpu.module.reset();
  gpu.stream.reset();
  gpu.context.reset();
  EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty());
}

}  // namespace
}  // namespace meshwork::findings_test

#endif  // MESHWORK_HAVE_CUDA
