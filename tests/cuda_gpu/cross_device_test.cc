// Cross-device ops on the GPU of this machine give the same bits as on the CPU.
#include "meshwork/runtime/plan/cross_device.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "cuda_gpu/real_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "support/cross_device_programs.h"

namespace meshwork::cross_device_test {
namespace {

using GpuCrossDeviceTest = RealGpuTest;

TEST_F(GpuCrossDeviceTest, ProgramsGiveTheBitsOfTheCpu) {
  const std::unique_ptr<CudaBackend> backend = MakeBackend();
  CpuBackend cpu(2);
  for (const std::string_view text : kCrossDevicePrograms) {
    const Program program = ParseProgram(text);
    const Tensors feeds = CrossDeviceFeeds(program);
    for (const auto& ops : AlgorithmsToTry())
      for (const int64_t bytes_per_pack : {0, 28, 1 << 20}) {
        SCOPED_TRACE(fmt::format("{} packs={}\n{}", ops->name(), bytes_per_pack, text));
        const ExecutorOptions options{.poison_padding = true,
                                      .check_replicas = true,
                                      .atomic = bytes_per_pack == 28,
                                      .cross_device_ops = ops,
                                      .bytes_per_pack = bytes_per_pack};
        ExpectSameRun(RunCrossDevice(program, feeds, options, *backend),
                      RunCrossDevice(program, feeds, options, cpu));
      }
  }
}

TEST_F(GpuCrossDeviceTest, TermsAreAddedInTheOrderOfTheCpu) {
  const std::unique_ptr<CudaBackend> backend = MakeBackend();
  for (const RoughReduction& reduction : kRoughReductions) ExpectTheOrderOfTheCpu(reduction, *backend);
}

}  // namespace
}  // namespace meshwork::cross_device_test
