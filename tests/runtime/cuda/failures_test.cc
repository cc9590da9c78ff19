// Whichever call fails, a Status is returned, nothing leaks, and freed memory is not used.
#ifdef MESHWORK_HAVE_CUDA
#include "gmock/gmock.h"
#include "meshwork/runtime/cuda/cuda_memory.h"
#include "meshwork/runtime/cuda/gpus.h"
#include "runtime/cuda/gpu_fixture.h"

namespace meshwork::failures_test {
namespace {

using ::testing::IsEmpty;

// Uses every function of this room, on two GPUs.
absl::Status DoEverything(const CudaApi& api, float& result) {
  MESHWORK_RETURN_IF_ERROR(ListGpus(api).status());
  MESHWORK_ASSIGN_OR_RETURN(const auto context, CudaContext::Create(api, 0));
  MESHWORK_ASSIGN_OR_RETURN(const auto second, CudaContext::Create(api, 1));
  MESHWORK_ASSIGN_OR_RETURN(const auto stream, CudaStream::Create(context));
  MESHWORK_ASSIGN_OR_RETURN(const auto copies, CudaStream::Create(context));
  MESHWORK_ASSIGN_OR_RETURN(const auto far, CudaStream::Create(second));
  MESHWORK_ASSIGN_OR_RETURN(const auto module, CudaModule::Compile(context, {"all.cu", "// all"}));
  MESHWORK_ASSIGN_OR_RETURN(const CudaFunction add, module->GetKernel("add"));
  MESHWORK_RETURN_IF_ERROR(add.AllowSharedBytes(65536));
  MESHWORK_ASSIGN_OR_RETURN(const auto memory, MakeCudaMemory(context, {.staging_bytes = 16}));
  std::vector<float> host = {1, 2, 3, 4};
  std::shared_ptr<void> x;
  try {
    x = memory->Allocate(16);
  } catch (const CudaBadAlloc& error) {
    return error.status();
  }
  auto* const place = static_cast<std::byte*>(x.get());
  MESHWORK_RETURN_IF_ERROR(
      memory->Upload(BoxCopy::Linear(4), 4, reinterpret_cast<const std::byte*>(host.data()), place));
  const auto address = reinterpret_cast<CUdeviceptr>(place);
  // Work on x is waited for before x is freed.
  const auto use = [&]() -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const auto fork, CudaEvent::Create(context));
    MESHWORK_ASSIGN_OR_RETURN(const auto join, CudaEvent::Create(context, CudaEvent::Kind::kTiming));
    MESHWORK_ASSIGN_OR_RETURN(const PinnedBuffer pinned, PinnedBuffer::Allocate(context, 16));
    const auto run = [&]() -> absl::Status {
      MESHWORK_ASSIGN_OR_RETURN(
          const CudaGraph graph, CudaGraph::Capture(*stream, [&]() -> absl::Status {
            MESHWORK_RETURN_IF_ERROR(fork->Record(*stream));
            MESHWORK_RETURN_IF_ERROR(copies->Wait(*fork));
            KernelArguments arguments = Arguments(address, int64_t{4}, 1.0f);
            MESHWORK_RETURN_IF_ERROR(add.Launch(*copies, {.shared_bytes = 60000}, arguments));
            MESHWORK_RETURN_IF_ERROR(join->Record(*copies));
            return stream->Wait(*join);
          }));
      MESHWORK_RETURN_IF_ERROR(graph.Launch(*stream));
      MESHWORK_RETURN_IF_ERROR(graph.Launch(*stream));
      MESHWORK_RETURN_IF_ERROR(CopyToHost(*stream, pinned.data(), address, 16));
      MESHWORK_RETURN_IF_ERROR(CopyToDevice(*stream, address, pinned.data(), 16));
      MESHWORK_RETURN_IF_ERROR(join->Record(*stream));
      MESHWORK_RETURN_IF_ERROR(join->Synchronize());
      MESHWORK_RETURN_IF_ERROR(join->MillisecondsSince(*join).status());
      MESHWORK_ASSIGN_OR_RETURN(const CudaBuffer y, CudaBuffer::Allocate(far, 16));
      MESHWORK_RETURN_IF_ERROR(Fill(*far, y.address(), std::byte{0}, 16));
      MESHWORK_RETURN_IF_ERROR(CopyBetweenDevices(*far, *second, y.address(), *context, address, 16));
      MESHWORK_RETURN_IF_ERROR(CopyToHost(*far, host.data(), y.address(), 16));
      MESHWORK_RETURN_IF_ERROR(far->IsDone().status());
      return second->Trim();
    };
    const absl::Status status = run();
    const absl::Status first_done = context->Synchronize(), second_done = second->Synchronize();
    if (!first_done.ok()) context->Synchronize().IgnoreError();
    if (!second_done.ok()) second->Synchronize().IgnoreError();
    MESHWORK_RETURN_IF_ERROR(status);
    MESHWORK_RETURN_IF_ERROR(first_done);
    return second_done;
  };
  const absl::Status used = use();
  result = host[0];
  return used;
}

SimulatedCudaOptions TwoGpus(SimulatedCompiler& compiler, uint64_t seed) {
  return {.gpus = {{}, {}}, .seed = seed, .compiler = &compiler};
}

TEST(CudaFailuresTest, ItAllWorks) {
  FunctionCompiler compiler(GpuFunctions());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedCuda cuda(TwoGpus(compiler, seed));
    float result = 0;
    const absl::Status status = DoEverything(cuda.api(), result);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(result, 3);
    EXPECT_THAT(cuda.TakeLeaks(), IsEmpty());
  }
}

TEST(CudaFailuresTest, AnyCallMayFail) {
  FunctionCompiler compiler(GpuFunctions());
  int64_t refused = 0, released = 0;
  for (const CUresult result : {CUDA_ERROR_UNKNOWN, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_READY}) {
    for (int64_t nth = 1;; ++nth) {
      ASSERT_LT(nth, 2000);
      SimulatedCuda cuda(TwoGpus(compiler, static_cast<uint64_t>(nth)));
      cuda.FailAnyCall(nth, result);
      float value = 0;
      const absl::Status status = DoEverything(cuda.api(), value);
      const std::string failed = cuda.failed_call();
      EXPECT_THAT(cuda.TakeLeaks(), IsEmpty()) << failed << ", call " << nth;
      if (failed.empty()) {
        EXPECT_TRUE(status.ok()) << status;
        break;
      }
      if (cuda.failed_call_released()) {  // nobody can do anything about it
        ++released;
        EXPECT_TRUE(status.ok() || failed == "cuStreamEndCapture") << failed << ": " << status;
      } else if (failed == "cuCtxPushCurrent" && status.ok()) {
        ++released;  // destructors make their context current, too
      } else if (result != CUDA_ERROR_NOT_READY || failed != "cuStreamQuery") {
        ++refused;
        EXPECT_FALSE(status.ok()) << failed << ", call " << nth;
        EXPECT_NE(status.message().find(failed.starts_with("nvrtc") ? "NVRTC" : "CUDA_ERROR"),
                  std::string::npos)
            << status;
      }
    }
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(released, 100);
}

// An error code that the driver, here the simulation, does not know.
TEST(CudaFailuresTest, ErrorsWithoutANameHaveANumber) {
  GpuPlayer gpu;
  gpu.cuda.FailCall("cuMemAllocAsync", 1, CUDA_ERROR_PROFILER_DISABLED);
  EXPECT_THAT(CudaBuffer::Allocate(gpu.stream, 4).status().message(), testing::HasSubstr("CUDA error 5"));
}

}  // namespace
}  // namespace meshwork::failures_test

#endif  // MESHWORK_HAVE_CUDA
