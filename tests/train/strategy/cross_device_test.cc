// Trainings whose gradients are summed by a given cross-device op.
#include "meshwork/runtime/plan/cross_device.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/train/strategy/strategies.h"
#include "support/cross_device_ops.h"
#include "train/strategy/losses.h"

namespace meshwork::cross_device_test {
namespace {

using OpsPtr = std::shared_ptr<CrossDeviceOps>;

std::vector<OpsPtr> BuiltIn() {
  return {ReductionToOneDevice(), HierarchicalCopyAllReduce().value(), HierarchicalCopyAllReduce(3).value(),
          RingAllReduce()};
}

class CrossDeviceTest : public ::testing::Test {
 protected:
  static void ExpectLosses(const Strategy& strategy, void (*build)(Graph&, const Optimizer&) = BuildWhole) {
    static const std::vector<double> expected = Losses(OneDeviceStrategy().value(), BuildWhole);
    const std::vector<double> losses = Losses(strategy, build);
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i) ASSERT_NEAR(losses[i], expected[i], 1e-9) << "step " << i;
  }

  // The error of the first steps under MirroredStrategy, "" if there is none.
  static std::string Train(int64_t devices, OpsPtr ops, ExecutorOptions executor = {.check_replicas = true}) {
    const Strategy strategy =
        MirroredStrategy({.num_devices = devices, .cross_device_ops = std::move(ops)}).value();
    const StrategyScope scope(strategy);
    Graph graph = NewGraph();
    BuildWhole(graph, Sgd({.learning_rate = 0.1}));
    absl::StatusOr<Session> session = NewSession(graph, {.workers = 1, .executor = std::move(executor)});
    if (!session.ok()) return std::string(MessageOf(session.status()));
    for (int64_t step = 0; step < 3; ++step)
      if (const auto result = session->Run(DrawBatch(step)); !result.ok())
        return std::string(MessageOf(result.status()));
    return "";
  }
};

TEST_F(CrossDeviceTest, EachTrainsAsOneDevice) {
  for (const int64_t devices : {1, 2, 3, 8}) {
    for (const OpsPtr& ops : BuiltIn()) {
      for (const int64_t bytes_per_pack : {0, 400, 1 << 20}) {
        SCOPED_TRACE(fmt::format("{} on {} devices, packs of {}", ops->name(), devices, bytes_per_pack));
        const Strategy strategy =
            MirroredStrategy(
                {.num_devices = devices, .cross_device_ops = ops, .bytes_per_pack = bytes_per_pack})
                .value();
        ExpectLosses(strategy);
        ExpectLosses(strategy, BuildForReplicas);
      }
    }
  }
}

TEST_F(CrossDeviceTest, OnesOwnTrainsAsOneDevice) {
  for (const int64_t devices : {2, 3, 8}) {
    const auto own = std::make_shared<BackwardsOps>();
    ExpectLosses(MirroredStrategy({.num_devices = devices, .cross_device_ops = own}).value());
    // Once per step: four gradients and the loss.
    EXPECT_EQ(own->reductions, 40 * 5);
    EXPECT_EQ(own->broadcasts, 40 * 5);
    EXPECT_EQ(static_cast<int64_t>(own->devices.size()), devices);
    EXPECT_EQ(Train(devices, std::make_shared<BackwardsOps>()), "");
  }
}

TEST_F(CrossDeviceTest, PacksHoldWhatIsReducedTogether) {
  const auto own = std::make_shared<BackwardsOps>();
  ExpectLosses(
      MirroredStrategy({.num_devices = 2, .cross_device_ops = own, .bytes_per_pack = 1 << 20}).value());
  // f64[6,16], f64[16], f64[16,3], f64[3], and the loss.
  int64_t elements = 0;
  for (size_t p = 0; p < own->packs.size() / 40; ++p) elements += own->packs[p];
  EXPECT_EQ(elements, 96 + 16 + 48 + 3 + 1);
  EXPECT_LE(own->reductions, 40 * 2);
}

// Here for a cluster of one process. Several processes: tests/domains.
TEST_F(CrossDeviceTest, OtherStrategiesTakeThemToo) {
  const auto own = std::make_shared<BackwardsOps>();
  ExpectLosses(CentralStorageStrategy({.num_devices = 3, .cross_device_ops = own}).value());
  EXPECT_EQ(own->devices.size(), 3);
  const absl::StatusOr<Strategy> workers =
      MultiWorkerMirroredStrategy({.devices_per_worker = 2, .cross_device_ops = own, .bytes_per_pack = 400});
  ASSERT_TRUE(workers.ok()) << workers.status();
  ExpectLosses(*workers);
  EXPECT_EQ(own->devices.size(), 2);
}

// The session's own ops take precedence over the strategy's.
TEST_F(CrossDeviceTest, ASessionMayHaveAnother) {
  const auto of_strategy = std::make_shared<BackwardsOps>(), of_session = std::make_shared<BackwardsOps>();
  EXPECT_EQ(Train(2, of_strategy, {.cross_device_ops = of_session}), "");
  EXPECT_EQ(of_strategy->reductions, 0);
  EXPECT_GT(of_session->reductions, 0);
}

TEST_F(CrossDeviceTest, AWrongOneIsCaught) {
  const std::string error = Train(2, std::make_shared<ForgetsTheLast>());
  EXPECT_THAT(error, ::testing::HasSubstr("cross-device op \"forgets the last\""));
  EXPECT_THAT(error, ::testing::StartsWith("Step 1: Run: "));
  for (const int64_t devices : {2, 3, 8}) {
    EXPECT_THAT(Train(devices, std::make_shared<ForgetsTheLast>()), ::testing::HasSubstr("replicas differ"));
    EXPECT_THAT(Train(devices, std::make_shared<KeepsToItself>()), ::testing::HasSubstr("replicas differ"));
  }
  // Without check_replicas, training goes on unnoticed.
  EXPECT_EQ(Train(2, std::make_shared<ForgetsTheLast>(), {.check_replicas = false}), "");
}

// An op that is wrong from the third step on.
class Tires : public BackwardsOps {
 public:
  std::string_view name() const override { return "tires"; }

 protected:
  bool Reaches(size_t, size_t) const override { return broadcasts <= 2 * 5; }
};

TEST_F(CrossDeviceTest, TheStepIsNamedAndChangesNothing) {
  const Strategy strategy =
      MirroredStrategy({.num_devices = 2, .cross_device_ops = std::make_shared<Tires>()}).value();
  const StrategyScope scope(strategy);
  Graph graph = NewGraph();
  BuildWhole(graph, Sgd({.learning_rate = 0.1}));
  Session session =
      NewSession(graph, {.workers = 1, .executor = {.check_replicas = true, .atomic = true}}).value();
  ASSERT_TRUE(session.Run(DrawBatch(0)).ok());
  ASSERT_TRUE(session.Run(DrawBatch(1)).ok());
  const Tensor before = session.Get("in/kernel").value();
  const absl::Status status = session.Run(DrawBatch(2)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(MessageOf(status)), ::testing::StartsWith("Step 3: Run: "));
  EXPECT_EQ(AllEqual(session.Get("in/kernel").value(), before), absl::OkStatus());
}

TEST_F(CrossDeviceTest, OneThatFailsOrThrowsEndsTheStep) {
  using How = FailsOps::How;
  for (const How how : {How::kStatus, How::kThrow, How::kThrowMemory, How::kThrowNumber})
    EXPECT_THAT(Train(2, std::make_shared<FailsOps>(how)), ::testing::HasSubstr("cross-device op \"fails\""));
}

}  // namespace
}  // namespace meshwork::cross_device_test
