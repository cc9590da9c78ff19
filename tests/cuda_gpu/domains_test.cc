// Several domains on the GPU of this machine give the numbers of one device of a CPU.
//
// One process alone plays all domains, and their data pass through its memory. As one of four, with a domain each,
//
//   MESHWORK_TEST_LAUNCHED=1 examples/multi_worker/launch 4 cuda_gpu_test --gtest_filter=*GpuDomains*
//
// it also tries NCCL, which is told that each process is a host of its own: otherwise they could not share a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_gpu/real_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "support/ends.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_program.h"
#include "support/random_training.h"
#include "support/small_session.h"

namespace meshwork::domains_test {
namespace {

using Way = CudaBackendOptions::Way;

std::vector<Way> WaysHere() {
  if (IsLaunched()) return {Way::kHost, Way::kNccl};
  return {Way::kHost};
}

// NCCL may also compute the sums itself.
std::vector<std::shared_ptr<CrossDeviceOps>> OpsOf(Way way) {
  if (way == Way::kNccl) return {nullptr, NcclAllReduce()};
  return {nullptr};
}

class GpuDomainsTest : public RealGpuTest {
 protected:
  void SetUp() override {
    if (IsLaunched()) setenv("NCCL_HOSTID", fmt::format("process {}", getpid()).c_str(), /*replace=*/0);
    RealGpuTest::SetUp();
  }

  static absl::StatusOr<std::unique_ptr<Backend>> MakeDomain(Way way) {
    MESHWORK_ASSIGN_OR_RETURN(
        auto backend,
        CudaBackend::Create(context(), {.way = way, .deadline = std::chrono::milliseconds(120'000)}));
    return backend;
  }

  static void TryAll(const std::function<RandomProgram(uint64_t seed)>& draw) {
    const uint64_t wanted = LongTests() ? 60 : 10;
    uint64_t tried = 0;
    for (uint64_t seed = 0; tried < wanted && seed < 20 * wanted; ++seed) {
      const RandomProgram random = draw(seed);
      const int64_t domains = tried % 3 == 1 ? 4 : 2;
      if (!Placement::Create(random.graph.mesh(), domains).ok()) continue;
      const Expected expected = ExpectedOf(random);
      if (!std::isfinite(expected.scale)) continue;
      const ExecutorOptions options{
          .share = tried % 4 != 3, .fuse = tried % 5 != 2, .atomic = tried % 2 == 1};
      for (const Way way : WaysHere())
        for (const auto& ops : OpsOf(way)) {
          ExecutorOptions with = options;
          with.cross_device_ops = ops;
          const Trial trial = TryOnDomains(
              random, expected, domains, [&](int64_t) { return MakeDomain(way); }, with);
          ASSERT_EQ(trial.error(), "") << "seed " << seed << " way " << static_cast<int>(way)
                                       << (ops == nullptr ? "" : " with ncclAllReduce");
        }
      ++tried;
    }
    EXPECT_EQ(tried, wanted);
  }
};

TEST_F(GpuDomainsTest, RandomProgramsGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  TryAll([&](uint64_t seed) { return programs.Draw(seed); });
}

TEST_F(GpuDomainsTest, LoopsAndBranchesGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  TryAll([&](uint64_t seed) { return programs.DrawLoops(seed); });
}

TEST_F(GpuDomainsTest, TrainingsGiveTheOneDeviceResult) {
  TryAll([](uint64_t seed) { return DrawTraining(seed); });
}

// Several logical devices per domain, whose collectives are kernels, and one exchange between domains.
TEST_F(GpuDomainsTest, AMlpTrainsAsOnTheCpu) {
  const Graph graph = SmallMlp("batch=4,model=2");
  const MlpTraining expected = TrainMlp(OnCpu(graph));
  for (const int64_t domains : {2, 4}) {
    for (const Way way : WaysHere())
      for (const auto& ops : OpsOf(way)) {
        SCOPED_TRACE(fmt::format("{} domains, way {}", domains, static_cast<int>(way)));
        const Ends ends = MakeEnds(domains, std::chrono::minutes(2));
        std::vector<std::thread> threads;
        for (const auto& end : ends) {
          if (end == nullptr) continue;
          threads.emplace_back([&, transport = end.get()] {
            SessionOptions options{.backend = MakeDomain(way).value(), .gather_outputs = true};
            options.executor.transport = transport;
            options.executor.cross_device_ops = ops;
            absl::StatusOr<Session> session = Session::Create(graph, options);
            ASSERT_TRUE(session.ok()) << session.status();
            ExpectTrainsAs(*session, expected);
          });
        }
        for (std::thread& thread : threads) thread.join();
      }
  }
}

}  // namespace
}  // namespace meshwork::domains_test
