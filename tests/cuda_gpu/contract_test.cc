// Every CUDA kernel gives, on the GPU of this machine, the results of the row's CPU kernel.
#include <gtest/gtest.h>

#include "cuda_gpu/real_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_module.h"
#include "ops/kernels/cuda/trials.h"

namespace meshwork::contract_test {
namespace {

// Runs trials on the GPU, which must be there.
class TrialRunner {
 public:
  // Runs each trial twice and compares the results with the CPU kernel's. `name`: of the source.
  void Try(const std::string& name, const std::vector<CudaTrial>& trials) {
    ASSERT_FALSE(trials.empty());
    CudaSource source{.name = name + ".cu", .text = ""};
    for (const std::string_view option : kCudaOptions) source.options.emplace_back(option);
    std::vector<CudaKernel> kernels;
    for (const CudaTrial& trial : trials) kernels.push_back(trial.kernel);
    source.text = CudaSourceOf(kernels);
    const absl::StatusOr<std::shared_ptr<const CudaModule>> module =
        CudaModule::Compile(stream_->shared_context(), source);
    ASSERT_TRUE(module.ok()) << module.status();
    for (const CudaTrial& trial : trials) {
      const std::vector<Bytes> expected = RunOnCpu(trial);
      const absl::StatusOr<std::vector<Bytes>> found = Run(**module, trial), again = Run(**module, trial);
      ASSERT_TRUE(found.ok()) << found.status() << "\n" << trial.kernel.source;
      const bool exactly = trial.kernel.second == nullptr && IsExactOnCuda(*trial.row);
      EXPECT_EQ(DifferenceOf(trial, expected, *found, exactly), "") << trial.kernel.source;
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE(*found == *again) << trial.name << " depends on the order of threads";
    }
  }

 private:
  absl::StatusOr<std::vector<Bytes>> Run(const CudaModule& module, const CudaTrial& trial) {
    GuardedRun run(trial);
    std::vector<CudaBuffer> buffers;
    std::vector<std::byte*> memory;
    for (const Bytes& tensor : run.tensors) {
      MESHWORK_ASSIGN_OR_RETURN(CudaBuffer buffer,
                                CudaBuffer::Allocate(stream_, static_cast<int64_t>(tensor.size())));
      MESHWORK_RETURN_IF_ERROR(CopyToDevice(*stream_, buffer.address(), tensor.data(), buffer.bytes()));
      memory.push_back(reinterpret_cast<std::byte*>(buffer.address()));
      buffers.push_back(std::move(buffer));
    }
    const auto launch = [&](const CudaKernel& kernel, std::span<std::byte*> pointers,
                            std::span<long long> places) -> absl::Status {
      MESHWORK_ASSIGN_OR_RETURN(const CudaFunction function, module.GetKernel(kernel.name));
      KernelArguments arguments;
      for (std::byte* const pointer : pointers) arguments.Add(pointer);
      for (const long long place : places) arguments.Add(place);
      const LaunchShape shape{.grid = {static_cast<unsigned>(kernel.blocks)},
                              .block = {static_cast<unsigned>(kernel.threads)}};
      return function.Launch(*stream_, shape, arguments);
    };
    MESHWORK_RETURN_IF_ERROR(run.Launch(memory, launch));
    for (size_t t = 0; t < buffers.size(); ++t)
      MESHWORK_RETURN_IF_ERROR(
          CopyToHost(*stream_, run.tensors[t].data(), buffers[t].address(), buffers[t].bytes()));
    MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
    return run.Results();
  }

  const std::shared_ptr<const CudaStream> stream_ = CudaStream::Create(*RealGpu()).value();
};

class GpuContractTest : public WithRealGpu<testing::TestWithParam<const OpRow*>> {};

TEST_P(GpuContractTest, ComputesWhatTheCpuKernelDoes) {
  TrialRunner().Try(std::string(GetParam()->name), TrialsOf(*GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Rows, GpuContractTest, testing::ValuesIn(RowsWithCudaKernels()),
                         [](const auto& info) { return std::string(info.param->name); });

using GpuSplitsTest = RealGpuTest;

// Reductions by two kernels.
TEST_F(GpuSplitsTest, ComputeWhatTheCpuKernelDoes) { TrialRunner().Try("splits", SplitTrials()); }

}  // namespace
}  // namespace meshwork::contract_test
