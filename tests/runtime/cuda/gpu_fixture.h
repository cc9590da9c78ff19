// A simulated GPU with a few kernels, and helpers for tests on it.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/cuda/cuda_graph.h"
#include "meshwork/runtime/cuda/cuda_module.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "support/simulated_cuda.h"
#include "support/simulated_kernels.h"

namespace meshwork {

// write(float* x, int64 n, float value), add(float* x, int64 n, float value), move(float* to, float* from, int64 n),
// and `fail`, which fails.
inline SimulatedFunctions GpuFunctions() {
  const auto for_all = [](auto&& f) {
    return [f](const SimulatedLaunch& launch) {
      auto* const x = launch.Argument<float*>(0);
      const auto n = launch.Argument<int64_t>(1);
      for (int64_t i = 0; i < n; ++i) f(x[i], launch.Argument<float>(2));
      return absl::OkStatus();
    };
  };
  return {
      {"write", for_all([](float& x, float value) { x = value; })},
      {"add", for_all([](float& x, float value) { x += value; })},
      {"move",
       [](const SimulatedLaunch& launch) {
         std::memmove(launch.Argument<float*>(0), launch.Argument<float*>(1),
                      static_cast<size_t>(launch.Argument<int64_t>(2)) * sizeof(float));
         return absl::OkStatus();
       }},
      {"write_stale",  // its argument is a complement, so that it is not taken for an address
       [](const SimulatedLaunch& launch) {
         *reinterpret_cast<float*>(~launch.Argument<uint64_t>(0)) = 1;  // NOLINT
         return absl::OkStatus();
       }},
      {"fail",
       [](const SimulatedLaunch&) { return absl::InternalError("x[7] is read, and x has 4 elements."); }},
  };
}

template <typename... Args>
KernelArguments Arguments(const Args&... args) {
  KernelArguments arguments;
  (arguments.Add(args), ...);
  return arguments;
}

// One GPU of a simulation, with a stream and the kernels above. A failing call ends the test.
class GpuPlayer {
 public:
  explicit GpuPlayer(uint64_t seed = 0, std::vector<SimulatedGpu> gpus = {{}})
      : cuda({.gpus = std::move(gpus), .seed = seed, .compiler = &compiler_}),
        context(CudaContext::Create(cuda.api(), 0).value()),
        stream(NewStream()),
        module(CudaModule::Compile(context, {"kernels.cu", "// write, add, move, fail"}).value()) {}

  std::shared_ptr<const CudaStream> NewStream() const { return CudaStream::Create(context).value(); }
  std::unique_ptr<const CudaEvent> NewEvent() const { return CudaEvent::Create(context).value(); }
  CudaBuffer NewBuffer(int64_t floats) const {
    return CudaBuffer::Allocate(stream, floats * static_cast<int64_t>(sizeof(float))).value();
  }
  PinnedBuffer NewPinned(int64_t floats) const {
    return PinnedBuffer::Allocate(context, floats * static_cast<int64_t>(sizeof(float))).value();
  }
  absl::Status Launch(const std::string& kernel, const CudaStream& on, KernelArguments arguments) const {
    MESHWORK_ASSIGN_OR_RETURN(const CudaFunction found, module->GetKernel(kernel));
    return found.Launch(on, {.grid = {2}, .block = {32}}, arguments);
  }
  // Launches write or add.
  absl::Status Launch(const std::string& kernel, const CudaStream& on, const CudaBuffer& x,
                      float value) const {
    return Launch(kernel, on, Arguments(x.address(), x.bytes() / static_cast<int64_t>(sizeof(float)), value));
  }
  // The buffer's first number after the work of the stream.
  float First(const CudaStream& on, const CudaBuffer& x) const {
    float first = 0;
    EXPECT_TRUE(CopyToHost(on, &first, x.address(), sizeof(first)).ok());
    return first;
  }

 private:
  FunctionCompiler compiler_{GpuFunctions()};

 public:
  SimulatedCuda cuda;
  std::shared_ptr<const CudaContext> context;
  std::shared_ptr<const CudaStream> stream;
  std::shared_ptr<const CudaModule> module;
};

inline float FirstOf(const PinnedBuffer& buffer) {
  float first = 0;
  std::memcpy(&first, buffer.data(), sizeof(first));
  return first;
}

}  // namespace meshwork
