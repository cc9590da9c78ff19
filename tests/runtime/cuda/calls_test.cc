// Wrong and failing calls of the simulated GPU's functions; several GPUs.
#ifdef MESHWORK_HAVE_CUDA
#include <stdexcept>
#include <thread>

#include "gmock/gmock.h"
#include "runtime/cuda/gpu_fixture.h"

namespace meshwork::calls_test {
namespace {

using ::testing::HasSubstr;

TEST(GpuCallsTest, NullsAndUnknownHandles) {
  GpuPlayer gpu;
  const CudaApi& api = gpu.cuda.api();
  const CudaContext::Scope scope(*gpu.context);
  CUdeviceptr address = 0;
  EXPECT_EQ(api.cuMemAlloc(nullptr, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuMemAllocAsync(&address, 16, reinterpret_cast<CUstream>(77)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(api.cuMemHostAlloc(nullptr, 16, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuStreamCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuEventCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuEventRecord(reinterpret_cast<CUevent>(77), gpu.stream->handle()),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(api.cuStreamWaitEvent(gpu.stream->handle(), nullptr, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(api.cuModuleUnload(nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(api.cuGraphLaunch(nullptr, gpu.stream->handle()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuMemcpyHtoDAsync(0, &address, 8, gpu.stream->handle()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuDeviceGetName(nullptr, 8, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api.cuDeviceGet(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  CUdevice device = 0;
  EXPECT_EQ(api.cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
}

TEST(GpuCallsTest, NothingWorksWithoutACurrentContext) {
  GpuPlayer gpu;
  const CudaApi& api = gpu.cuda.api();
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  EXPECT_EQ(api.cuMemAlloc(&address, 16), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(api.cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(api.cuStreamSynchronize(gpu.stream->handle()), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(api.cuCtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(api.cuCtxPushCurrent(reinterpret_cast<CUcontext>(1)), CUDA_ERROR_INVALID_CONTEXT);
}

// Another library in the same process may have its own context current.
TEST(GpuCallsTest, TheCurrentContextIsLeftAsItWas) {
  GpuPlayer gpu(0, {{}, {}});
  const auto second = CudaContext::Create(gpu.cuda.api(), 1).value();
  const CudaContext::Scope scope(*second);
  EXPECT_TRUE(gpu.stream->Synchronize().ok());
  CUcontext current = nullptr;
  EXPECT_EQ(gpu.cuda.api().cuCtxPopCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, second->handle());
  EXPECT_EQ(gpu.cuda.api().cuCtxPushCurrent(current), CUDA_SUCCESS);
}

TEST(GpuCallsTest, EventsAndKernelsOfAnotherGpu) {
  GpuPlayer gpu(0, {{}, {}});
  const auto second = CudaContext::Create(gpu.cuda.api(), 1).value();
  const auto stream = CudaStream::Create(second).value();
  const auto event = CudaEvent::Create(second).value();
  EXPECT_THAT(event->Record(*gpu.stream).message(), HasSubstr("CUDA_ERROR_INVALID_HANDLE"));
  EXPECT_THAT(gpu.Launch("fail", *stream, Arguments()).message(), HasSubstr("CUDA_ERROR_INVALID_HANDLE"));
  // A stream may wait for an event of another GPU, though.
  EXPECT_TRUE(event->Record(*stream).ok());
  EXPECT_TRUE(gpu.stream->Wait(*event).ok());
  EXPECT_TRUE(gpu.stream->Synchronize().ok());
}

TEST(GpuCallsTest, ShapesOfLaunchesThatNoGpuCanRun) {
  GpuPlayer gpu;
  const CudaFunction kernel = gpu.module->GetKernel("write").value();
  const CudaBuffer x = gpu.NewBuffer(1);
  KernelArguments arguments = Arguments(x.address(), int64_t{1}, 1.0f);
  for (const LaunchShape& shape : {LaunchShape{.grid = {0}}, LaunchShape{.block = {1025}},
                                   LaunchShape{.block = {32, 33}}, LaunchShape{.block = {1, 1, 65}},
                                   LaunchShape{.grid = {1, 65536}}, LaunchShape{.shared_bytes = 49153}})
    EXPECT_THAT(kernel.Launch(*gpu.stream, shape, arguments).message(),
                HasSubstr("CUDA_ERROR_INVALID_VALUE"));
  EXPECT_TRUE(kernel.AllowSharedBytes(100000).ok());
  EXPECT_TRUE(kernel.Launch(*gpu.stream, {.shared_bytes = 100000}, arguments).ok());
  EXPECT_FALSE(kernel.AllowSharedBytes(300000).ok());
  EXPECT_TRUE(gpu.stream->Synchronize().ok());
}

// The kernel runs after the values of the launch have changed.
TEST(GpuCallsTest, ArgumentsAreThoseOfTheLaunch) {
  struct Pair {
    double first, second;
  };
  Pair seen{};
  char letter = 0;
  FunctionCompiler compiler({{"see", [&](const SimulatedLaunch& launch) {
                                letter = launch.Argument<char>(0);
                                seen = launch.Argument<Pair>(1);
                                EXPECT_EQ(launch.grid.y, 3u);
                                EXPECT_EQ(launch.block.z, 5u);
                                EXPECT_EQ(launch.shared_bytes, 64u);
                                EXPECT_EQ(launch.args[2], nullptr);
                                return absl::OkStatus();
                              }}});
  SimulatedCuda cuda({.compiler = &compiler});
  const auto context = CudaContext::Create(cuda.api(), 0).value();
  const auto stream = CudaStream::Create(context).value();
  const auto module = CudaModule::Compile(context, {"see.cu", ""}).value();
  {
    KernelArguments arguments = Arguments('m', Pair{1, 2});
    ASSERT_TRUE(module->GetKernel("see")
                    ->Launch(*stream, {.grid = {1, 3}, .block = {1, 1, 5}, .shared_bytes = 64}, arguments)
                    .ok());
    arguments = Arguments('x', Pair{3, 4});
  }
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(letter, 'm');
  EXPECT_EQ(seen.first, 1);
  EXPECT_EQ(seen.second, 2);
}

TEST(GpuCallsTest, TheNthCallFails) {
  GpuPlayer gpu;
  gpu.cuda.FailCall("cuMemAllocAsync", 2, CUDA_ERROR_OUT_OF_MEMORY);
  const CudaBuffer first = gpu.NewBuffer(1);
  EXPECT_EQ(CudaBuffer::Allocate(gpu.stream, 4).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(gpu.cuda.failed_call(), "cuMemAllocAsync");
  EXPECT_TRUE(CudaBuffer::Allocate(gpu.stream, 4).ok());
  gpu.cuda.FailAnyCall(2, CUDA_ERROR_DEVICE_UNAVAILABLE);  // the context is made current first
  EXPECT_EQ(CudaBuffer::Allocate(gpu.stream, 4).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(gpu.cuda.failed_call(), "cuStreamIsCapturing");
}

TEST(GpuCallsTest, GpusDiffer) {
  FunctionCompiler compiler(GpuFunctions());
  SimulatedCuda cuda({.gpus = {{.name = "Small", .architecture = 80, .bytes = 1000}, {.architecture = 121}},
                      .compiler = &compiler});
  const auto small = CudaContext::Create(cuda.api(), 0).value();
  const auto large = CudaContext::Create(cuda.api(), 1).value();
  EXPECT_EQ(small->name(), "Small");
  EXPECT_EQ(small->architecture(), 80);
  EXPECT_EQ(large->architecture(), 121);
  EXPECT_EQ(small->GetMemoryInfo()->total_bytes, 1000);
  const auto stream = CudaStream::Create(small).value();
  const CudaBuffer x = CudaBuffer::Allocate(stream, 600).value();
  EXPECT_EQ(small->GetMemoryInfo()->free_bytes, 400);
  EXPECT_EQ(large->GetMemoryInfo()->free_bytes, int64_t{1} << 30);
  EXPECT_EQ(CudaBuffer::Allocate(stream, 401).status().code(), absl::StatusCode::kResourceExhausted);
  // Code of one generation does not run on another. NVRTC does not know 121, and makes PTX.
  const std::string code = CompileCuda(cuda.api(), 80, {"a.cu", ""}).value();
  EXPECT_TRUE(CudaModule::Load(small, "a.cu", code).ok());
  EXPECT_THAT(CudaModule::Load(large, "a.cu", code).status().message(),
              HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU"));
  EXPECT_TRUE(CudaModule::Compile(large, {"a.cu", ""}).ok());
  EXPECT_FALSE(CompileCuda(cuda.api(), 70, {"a.cu", ""}).ok());
}

// Memory counts as free before its stream has executed the free.
TEST(GpuCallsTest, AnAllocationWaitsForFrees) {
  GpuPlayer gpu(0, {{.bytes = 1000}});
  { const CudaBuffer x = gpu.NewBuffer(200); }
  EXPECT_EQ(gpu.cuda.BytesInUse(0), 800);
  EXPECT_TRUE(CudaBuffer::Allocate(gpu.stream, 800).ok());
}

TEST(GpuCallsTest, ThereIsOneSimulationAtATime) {
  const SimulatedCuda cuda;
  EXPECT_THROW(SimulatedCuda(), std::logic_error);
}

TEST(GpuCallsTest, ThreadsShareAContext) {
  const GpuPlayer gpu;
  std::vector<float> found(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i)
    threads.emplace_back([&gpu, &found, i] {
      const auto stream = gpu.NewStream();
      const CudaBuffer x = CudaBuffer::Allocate(stream, 16).value();
      EXPECT_TRUE(gpu.Launch("write", *stream, x, static_cast<float>(i)).ok());
      for (int n = 0; n < 100; ++n) EXPECT_TRUE(gpu.Launch("add", *stream, x, 1).ok());
      found[i] = gpu.First(*stream, x);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, (std::vector<float>{100, 101, 102, 103}));
}

TEST(GpuCallsTest, CopiesBetweenGpus) {
  GpuPlayer gpu(0, {{}, {}});
  const auto second = CudaContext::Create(gpu.cuda.api(), 1).value();
  const auto stream = CudaStream::Create(second).value();
  const auto written = gpu.NewEvent();
  const CudaBuffer x = gpu.NewBuffer(4), y = CudaBuffer::Allocate(stream, 16).value();
  ASSERT_TRUE(gpu.Launch("write", *gpu.stream, x, 6).ok());
  ASSERT_TRUE(written->Record(*gpu.stream).ok());
  ASSERT_TRUE(stream->Wait(*written).ok());
  ASSERT_TRUE(CopyBetweenDevices(*stream, *second, y.address(), *gpu.context, x.address(), 16).ok());
  EXPECT_EQ(gpu.First(*stream, y), 6);
  const auto done = CudaEvent::Create(second).value();
  ASSERT_TRUE(done->Record(*stream).ok());
  ASSERT_TRUE(gpu.stream->Wait(*done).ok());  // x is freed there
}

}  // namespace
}  // namespace meshwork::calls_test

#endif  // MESHWORK_HAVE_CUDA
