// The memory of the GPU of this machine, its compiler and its clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_backend/traces.h"
#include "cuda_gpu/real_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_compile.h"
#include "meshwork/runtime/cuda/cuda_module.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/small_session.h"

namespace meshwork::edges_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using GpuEdgesTest = RealGpuTest;

// A product of 640 GB, more than any GPU has. Sessions from before and after the failure still compute.
TEST_F(GpuEdgesTest, MemoryThatIsNotThereIsAStatus) {
  const std::unique_ptr<CudaBackend> backend = MakeBackend();
  Session session = Session::Create(SmallMlp(), {.backend = MakeBackend()}).value(), cpu = OnCpu(SmallMlp());
  const Graph graph = ParseGraph(R"(mesh []
func f(%x: f32[400000,2] {_,_}, %w: f32[2,400000] {_,_}) {
  %p = matmul %x, %w
  %m = reduce_max %p dims=[0,1] keep_dims=false
  return m=%m
})")
                          .value();
  const Program program = Compile(graph).value();
  for (int time = 0; time < 2; ++time) {
    std::map<std::string, DTensor> state;
    const auto executor = Executor::Create(program, *backend, {}, &state);
    ASSERT_FALSE(executor.ok());
    EXPECT_EQ(executor.status().code(), absl::StatusCode::kResourceExhausted) << executor.status();
    EXPECT_THAT(MessageOf(executor.status()), AllOf(HasSubstr("GPU 0"), HasSubstr("free")));
    ExpectNear(session.Run(MlpRows(kMlpRows)), cpu.Run(MlpRows(kMlpRows)));
  }
}

// For an architecture that NVRTC does not know, it makes PTX, which the driver compiles.
TEST_F(GpuEdgesTest, ADriverCompilesPtx) {
  const CudaSource source{.name = "twice.cu",
                          .text = R"(extern "C" __global__ void twice(float* x, long long n) {
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) x[i] = 2 * x[i];
})"};
  const int unknown = context()->architecture() / 10 * 10 + 5;
  const absl::StatusOr<std::string> code = CompileCuda(context()->api(), unknown, source);
  ASSERT_TRUE(code.ok()) << code.status();
  ASSERT_THAT(*code, HasSubstr(".target sm_"));
  const auto stream = CudaStream::Create(context()).value();
  const auto module = CudaModule::Load(context(), source.name, *code);
  ASSERT_TRUE(module.ok()) << module.status();
  const CudaFunction twice = (*module)->GetKernel("twice").value();
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const auto bytes = static_cast<int64_t>(x.size() * sizeof(float));
  const CudaBuffer buffer = CudaBuffer::Allocate(stream, bytes).value();
  ASSERT_TRUE(CopyToDevice(*stream, buffer.address(), x.data(), bytes).ok());
  KernelArguments arguments;
  arguments.Add(buffer.address());
  arguments.Add(static_cast<long long>(x.size()));
  ASSERT_TRUE(twice.Launch(*stream, {.grid = {4}, .block = {256}}, arguments).ok());
  ASSERT_TRUE(CopyToHost(*stream, x.data(), buffer.address(), bytes).ok());
  ASSERT_TRUE(stream->Synchronize().ok());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i], 2 * static_cast<float>(i));
}

// Each launch of a step appears once, one after the other, and the numbers are those of the CPU.
TEST_F(GpuEdgesTest, TracesShowWhatRan) {
  for (const bool fuse : {true, false}) {
    const std::string file = "small_session.h:";
    Session session =
        Session::Create(SmallMlp(), {.backend = MakeBackend(), .executor = {.fuse = fuse, .trace_steps = 2}})
            .value();
    Session cpu = OnCpu(SmallMlp());
    for (int step = 0; step < 3; ++step)
      ExpectNear(session.Run(MlpRows(kMlpRows)), cpu.Run(MlpRows(kMlpRows)));
    const Trace trace = session.Trace();
    ExpectInOrder(trace);
    EXPECT_EQ(EventsOfTrack(trace, 0).size(), 2u);
    std::map<std::string, int> times;
    int products = 0;
    int64_t of_kernels = 0;
    for (const TraceEvent& event : EventsOfTrack(trace, 1)) {
      const TraceLabel& label = LabelOfEvent(trace, event);
      if (label.category == "kernel") of_kernels += event.ns;
      if (TextOf(label, "where").find(file) == std::string::npos) continue;
      ++times[label.name];
      products += label.name.starts_with("matmul");  // "matmul+all_reduce" where the devices' are added up
    }
    EXPECT_GT(of_kernels, 0);
    EXPECT_EQ(products, 2 * 5) << testing::PrintToString(times);  // two layers, and three for the gradient
  }
}

}  // namespace
}  // namespace meshwork::edges_test
