// Cross-device ops on a simulated GPU: its kernels make the copies and sums, with the same bits as on the CPU.
#include "meshwork/runtime/plan/cross_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_backend/played_gpu.h"
#include "cuda_backend/played_session.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "support/cross_device_ops.h"
#include "support/cross_device_programs.h"
#include "support/small_session.h"
#include "train/strategy/losses.h"

namespace meshwork::cross_device_test {
namespace {

using OpsPtr = std::shared_ptr<CrossDeviceOps>;
using ::testing::HasSubstr;

// Packs, groups of several axes, loops, new values in spares. Unwritten memory is full of NaN, and the values of all
// devices are compared.
TEST(CudaCrossDeviceTest, ProgramsGiveTheBitsOfTheCpu) {
  PlayedGpu gpu(1);
  auto backend = gpu.MakeBackend().value();
  CpuBackend cpu(2);
  for (const std::string_view text : kCrossDevicePrograms) {
    const Program program = ParseProgram(text);
    const Tensors feeds = CrossDeviceFeeds(program);
    for (const OpsPtr& ops : AlgorithmsToTry())
      for (const int64_t bytes_per_pack : {0, 28, 1 << 20})
        for (const bool share : {true, false}) {
          SCOPED_TRACE(fmt::format("{} packs={} share={}\n{}", ops->name(), bytes_per_pack, share, text));
          const ExecutorOptions options{.share = share,
                                        .fuse = bytes_per_pack > 0,
                                        .poison_padding = true,
                                        .check_replicas = true,
                                        .atomic = share,
                                        .cross_device_ops = ops,
                                        .bytes_per_pack = bytes_per_pack};
          ExpectSameRun(RunCrossDevice(program, feeds, options, *backend),
                        RunCrossDevice(program, feeds, options, cpu));
        }
  }
  backend = nullptr;
  ExpectClean(gpu);
}

TEST(CudaCrossDeviceTest, TermsAreAddedInTheOrderOfTheCpu) {
  PlayedGpu gpu(2);
  auto backend = gpu.MakeBackend().value();
  for (const RoughReduction& reduction : kRoughReductions) ExpectTheOrderOfTheCpu(reduction, *backend);
  backend = nullptr;
  ExpectClean(gpu);
}

// A strategy whose replicas are logical devices of the GPU.
TEST(CudaCrossDeviceTest, AMirroredTrainingIsThatOfTheCpu) {
  PlayedGpu gpu(3);
  for (const OpsPtr& ops : AlgorithmsToTry()) {
    SCOPED_TRACE(ops->name());
    const Strategy strategy =
        MirroredStrategy({.num_devices = 4, .cross_device_ops = ops, .bytes_per_pack = 400}).value();
    const StrategyScope scope(strategy);
    Graph graph = NewGraph();
    BuildWhole(graph, Sgd({.learning_rate = 0.1}));
    const ExecutorOptions executor{.poison_padding = true, .check_replicas = true};
    Session on_cpu = NewSession(graph, {.workers = 1, .executor = executor}).value();
    absl::StatusOr<Session> on_gpu =
        NewSession(graph, {.backend = gpu.MakeBackend().value(), .executor = executor});
    ASSERT_TRUE(on_gpu.ok()) << on_gpu.status();
    for (int64_t step = 0; step < 4; ++step)
      ExpectNear(on_gpu->Run(DrawBatch(step)), on_cpu.Run(DrawBatch(step)));
    ExpectStateNear(*on_gpu, on_cpu);
  }
  ExpectClean(gpu);
}

// A cross-device op that is code for host memory, and an algorithm with wrong moves, are refused.
TEST(CudaCrossDeviceTest, WhatCannotRunThereIsRefused) {
  PlayedGpu gpu(4);
  auto backend = gpu.MakeBackend().value();
  const Program program = ParseProgram(kCrossDevicePrograms[1]);
  const auto error = [&](OpsPtr ops) {
    return RunCrossDevice(program, CrossDeviceFeeds(program), {.cross_device_ops = std::move(ops)}, *backend)
        .error;
  };
  EXPECT_THAT(error(std::make_shared<BackwardsOps>()),
              HasSubstr("the cross-device op \"backwards\" is code"));
  EXPECT_THAT(error(MakeCrossDeviceOps(std::make_shared<MistakenMoves>(MistakenMoves::How::kSameRound))),
              HasSubstr("the cross-device op \"mistaken\", over 3 devices: two moves of a round touch"));
  backend = nullptr;
  ExpectClean(gpu);
}

}  // namespace
}  // namespace meshwork::cross_device_test
