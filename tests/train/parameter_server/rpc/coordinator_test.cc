// A coordinator and its workers, all in this process.
#include "meshwork/train/parameter_server/rpc/coordinator.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/train/parameter_server/rpc/run_request.h"
#include "meshwork/train/parameter_server/rpc/worker_server.h"
#include "support/forks.h"

namespace meshwork::coordinator_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Results = absl::StatusOr<std::vector<Tensor>>;

// A gate at which closures wait until it is opened. A test can wait for the closures.
class Gate {
 public:
  void Pass(int64_t who) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    last_ = who;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_; });
    --waiting_;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  // Waits for at least `waiting` closures. Returns the last one that came.
  int64_t Await(int waiting) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= waiting; });
    return last_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int64_t last_ = -1;
  bool is_open_ = false;
};

class CoordinatorTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
    Register("twice", [](ClosureContext&, const std::vector<Tensor>& x) -> Results {
      return std::vector<Tensor>{Tensor(2 * x.at(0).Scalar().value())};
    });
    Register("worker", [this](ClosureContext& context, const std::vector<Tensor>&) -> Results {
      gate_.Pass(context.worker().index);
      return std::vector<Tensor>{Tensor(context.worker().index), Tensor(context.worker().count)};
    });
    Register("fail", [](ClosureContext&, const std::vector<Tensor>&) -> Results {
      return absl::DataLossError("the loss is no number");
    });
    Register("throw",
             [](ClosureContext&, const std::vector<Tensor>& x) -> Results { return std::vector{x.at(7)}; });
    Register("next", [](ClosureContext& context, const std::vector<Tensor>&) -> Results {
      MESHWORK_ASSIGN_OR_RETURN(const std::optional<Example> example, context.Next(0));
      return std::vector<Tensor>{(*example)["index"]};
    });
    ASSERT_TRUE(closures_
                    .RegisterDataset("numbers",
                                     [](WorkerPlace worker) -> absl::StatusOr<Pipeline> {
                                       return Pipeline::Range().Shard(worker.index, worker.count);
                                     })
                    .ok());
    ASSERT_TRUE(closures_
                    .RegisterResource<std::atomic<int64_t>>(
                        "counter",
                        [](WorkerPlace) -> absl::StatusOr<std::shared_ptr<std::atomic<int64_t>>> {
                          return std::make_shared<std::atomic<int64_t>>(0);
                        })
                    .ok());
    Register("count", [](ClosureContext& context, const std::vector<Tensor>&) -> Results {
      MESHWORK_ASSIGN_OR_RETURN(const auto counter, context.Resource<std::atomic<int64_t>>(0));
      return std::vector<Tensor>{Tensor(int64_t{++*counter})};
    });
  }

  void Register(const std::string& name, ClosureRegistry::Closure closure) {
    ASSERT_TRUE(closures_.Register(name, std::move(closure)).ok());
  }
  void StartWorkers(size_t count) {
    for (size_t w = 0; w < count; ++w) {
      workers_.push_back(WorkerServer::Start(closures_, "127.0.0.1:0", {.token = "t"}).value());
      addresses_.push_back(fmt::format("127.0.0.1:{}", workers_.back()->port()));
    }
  }
  std::unique_ptr<ClusterCoordinator> Coordinate(CoordinatorOptions options = {}) const {
    options.rpc.token = "t";
    return ClusterCoordinator::Create(addresses_, options).value();
  }
  static double NumberOf(const RemoteValue& value) { return value.Fetch().value().at(0).Scalar().value(); }

  Gate gate_;
  ClosureRegistry closures_;
  std::vector<std::unique_ptr<WorkerServer>> workers_;
  std::vector<std::string> addresses_;
};

TEST_F(CoordinatorTest, RunsAllClosures) {
  StartWorkers(3);
  const auto coordinator = Coordinate();
  std::vector<RemoteValue> values;
  for (int i = 0; i < 100; ++i)
    values.push_back(coordinator->Schedule("twice", {Tensor(double{1} * i)}).value());
  EXPECT_TRUE(coordinator->Join().ok());
  EXPECT_TRUE(coordinator->Done());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(values[static_cast<size_t>(i)].IsReady());
    EXPECT_EQ(NumberOf(values[static_cast<size_t>(i)]), 2 * i);
  }
}

TEST_F(CoordinatorTest, ANumberIsAnArgument) {
  StartWorkers(1);
  const auto coordinator = Coordinate();
  EXPECT_EQ(NumberOf(coordinator->Schedule("twice", {4.0}).value()), 8);
  EXPECT_EQ(NumberOf(coordinator->Schedule("twice", {int64_t{5}}).value()), 10);
}

TEST_F(CoordinatorTest, EveryWorkerIsUsedAndKnowsItsPlace) {
  StartWorkers(3);
  const auto coordinator = Coordinate();
  std::vector<RemoteValue> values;
  for (int i = 0; i < 3; ++i) values.push_back(coordinator->Schedule("worker").value());
  gate_.Await(3);
  EXPECT_FALSE(coordinator->Done());
  EXPECT_FALSE(values[0].IsReady());
  gate_.Open();
  std::set<double> indices;
  for (const RemoteValue& value : values) {
    indices.insert(NumberOf(value));
    EXPECT_EQ(value.Fetch().value()[1].Scalar().value(), 3);
  }
  EXPECT_THAT(indices, ElementsAre(0, 1, 2));
}

TEST_F(CoordinatorTest, TheWorkerThatEndedLastIsTheNext) {
  StartWorkers(3);
  const auto coordinator = Coordinate();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(coordinator->Schedule("worker").ok());
  gate_.Await(3);
  gate_.Open();
  ASSERT_TRUE(coordinator->Join().ok());
  const double last = NumberOf(coordinator->Schedule("worker").value());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(NumberOf(coordinator->Schedule("worker").value()), last);
}

TEST_F(CoordinatorTest, AWorkerMayRunSeveralAtATime) {
  StartWorkers(1);
  const auto coordinator = Coordinate({.closures_per_worker = 3});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(coordinator->Schedule("worker").ok());
  gate_.Await(3);
  gate_.Open();
  EXPECT_TRUE(coordinator->Join().ok());
}

TEST_F(CoordinatorTest, AResultMayBeAnArgument) {
  StartWorkers(2);
  const auto coordinator = Coordinate();
  std::vector<RemoteValue> chain = {coordinator->Schedule("twice", {Tensor(1.0)}).value()};
  for (int i = 0; i < 9; ++i) chain.push_back(coordinator->Schedule("twice", {chain.back()}).value());
  EXPECT_EQ(NumberOf(chain.back()), 1024);
  EXPECT_TRUE(coordinator->Join().ok());
}

TEST_F(CoordinatorTest, EachWorkerHasItsOwnDataset) {
  StartWorkers(2);
  const auto coordinator = Coordinate();
  const PerWorker numbers = coordinator->CreatePerWorkerDataset("numbers");
  std::multiset<double> seen;
  std::vector<RemoteValue> values;
  for (int i = 0; i < 20; ++i) values.push_back(coordinator->Schedule("next", {numbers}).value());
  for (const RemoteValue& value : values) seen.insert(NumberOf(value));
  // No number comes twice. Each worker gives its first numbers without a gap.
  for (const double remainder : {0, 1}) {
    double expected = remainder;
    for (const double number : seen)
      if (static_cast<int64_t>(number) % 2 == static_cast<int64_t>(remainder)) {
        EXPECT_EQ(number, expected);
        expected += 2;
      }
  }
}

TEST_F(CoordinatorTest, AResourceIsMadeOncePerWorkerAndHandle) {
  StartWorkers(1);
  auto coordinator = Coordinate();
  const PerWorker one = coordinator->CreatePerWorker("counter"),
                  other = coordinator->CreatePerWorker("counter");
  EXPECT_EQ(NumberOf(coordinator->Schedule("count", {one}).value()), 1);
  EXPECT_EQ(NumberOf(coordinator->Schedule("count", {one}).value()), 2);
  EXPECT_EQ(NumberOf(coordinator->Schedule("count", {other}).value()), 1);
  EXPECT_EQ(NumberOf(coordinator->Schedule("count", {one}).value()), 3);
  coordinator = Coordinate();  // a new coordinator has new resources
  EXPECT_EQ(NumberOf(coordinator->Schedule("count", {coordinator->CreatePerWorker("counter")}).value()), 1);
}

TEST_F(CoordinatorTest, TheFirstErrorReachesJoinAndWhatWaitsIsCancelled) {
  StartWorkers(1);
  const auto coordinator = Coordinate();
  const RemoteValue runs = coordinator->Schedule("worker").value();
  gate_.Await(1);  // the only worker is busy
  const RemoteValue failed = coordinator->Schedule("fail").value(),
                    cancelled = coordinator->Schedule("fail").value();
  gate_.Open();
  const absl::Status status = coordinator->Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("closure \"fail\": the loss is no number"));
  EXPECT_TRUE(runs.Fetch().ok());
  EXPECT_EQ(failed.Fetch().status(), status);
  EXPECT_EQ(cancelled.Fetch().status().code(), absl::StatusCode::kCancelled);
  // The coordinator goes on.
  EXPECT_TRUE(coordinator->Join().ok());
  EXPECT_EQ(NumberOf(coordinator->Schedule("twice", {Tensor(4.0)}).value()), 8);
}

TEST_F(CoordinatorTest, ScheduleGivesAnEarlierError) {
  StartWorkers(1);
  const auto coordinator = Coordinate();
  const RemoteValue failed = coordinator->Schedule("fail").value();
  EXPECT_EQ(failed.Fetch().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(coordinator->Schedule("twice", {Tensor(4.0)}).status().code(), absl::StatusCode::kDataLoss);
  const RemoteValue again = coordinator->Schedule("twice", {Tensor(4.0)}).value();
  EXPECT_EQ(NumberOf(again), 8);
  // A failed value cannot be an argument.
  EXPECT_EQ(coordinator->Schedule("twice", {failed}).value().Fetch().status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(coordinator->Join().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CoordinatorTest, WhatAClosureThrowsIsAnError) {
  StartWorkers(1);
  const auto coordinator = Coordinate();
  EXPECT_EQ(coordinator->Schedule("throw", {Tensor(1.0)}).value().Fetch().status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(coordinator->Join().code(), absl::StatusCode::kInternal);
}

TEST_F(CoordinatorTest, ALostWorkersClosureRunsElsewhere) {
  StartWorkers(3);
  const auto coordinator = Coordinate();
  const RemoteValue one = coordinator->Schedule("worker").value(),
                    other = coordinator->Schedule("worker").value();
  const int64_t lost = gate_.Await(2);
  // The server's destructor waits for the closure, the coordinator does not: the third worker runs the closure.
  std::thread ends([&] { workers_[static_cast<size_t>(lost)].reset(); });
  EXPECT_NE(gate_.Await(3), lost);
  gate_.Open();
  ends.join();
  EXPECT_TRUE(coordinator->Join().ok());
  EXPECT_NE(NumberOf(one), lost);
  EXPECT_NE(NumberOf(other), lost);
}

TEST_F(CoordinatorTest, AWorkerThatComesBackIsUsedAgain) {
  StartWorkers(1);
  const auto coordinator = Coordinate();
  const PerWorker counter = coordinator->CreatePerWorker("counter");
  EXPECT_EQ(NumberOf(coordinator->Schedule("count", {counter}).value()), 1);
  workers_[0].reset();
  const RemoteValue later = coordinator->Schedule("count", {counter}).value();
  workers_[0] = WorkerServer::Start(closures_, addresses_[0], {.token = "t"}).value();
  EXPECT_EQ(NumberOf(later), 1);  // the resource is made anew
  EXPECT_TRUE(coordinator->Join().ok());
}

TEST_F(CoordinatorTest, WorkersThatDoNotComeAreNamed) {
  StartWorkers(2);
  workers_.clear();
  const auto coordinator = Coordinate({.deadline = std::chrono::milliseconds(200)});
  const RemoteValue value = coordinator->Schedule("twice", {Tensor(1.0)}).value();
  const absl::Status status = coordinator->Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  for (const std::string& address : addresses_)
    EXPECT_THAT(std::string(MessageOf(status)), HasSubstr(address));
  EXPECT_EQ(value.Fetch().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(CoordinatorTest, WorkersOfAnotherJobAreNotWaitedFor) {
  StartWorkers(2);
  const auto coordinator = ClusterCoordinator::Create(addresses_, {.rpc = {.token = "another"}}).value();
  ASSERT_TRUE(coordinator->Schedule("twice", {Tensor(1.0)}).ok());
  EXPECT_EQ(coordinator->Join().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorTest, AFullQueueIsWaitedFor) {
  StartWorkers(1);
  const auto coordinator = Coordinate({.max_waiting = 1});
  std::vector<RemoteValue> values;
  for (int i = 0; i < 20; ++i)
    values.push_back(coordinator->Schedule("twice", {Tensor(double{1} * i)}).value());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(NumberOf(values[static_cast<size_t>(i)]), 2 * i);
}

TEST_F(CoordinatorTest, ItsEndCancelsWhatHasNotEnded) {
  StartWorkers(1);
  auto coordinator = Coordinate();
  const RemoteValue runs = coordinator->Schedule("worker").value(),
                    waits = coordinator->Schedule("worker").value();
  gate_.Await(1);
  coordinator.reset();
  EXPECT_EQ(runs.Fetch().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(waits.Fetch().status().code(), absl::StatusCode::kCancelled);
  gate_.Open();
}

TEST_F(CoordinatorTest, IsMadeOfACluster) {
  StartWorkers(2);
  const std::string config = fmt::format(
      R"({{"cluster": {{"chief": ["127.0.0.1:1"], "worker": ["{}", "{}"]}}, "task": {{"type": "chief", "index": 0}}}})",
      addresses_[0], addresses_[1]);
  const auto coordinator =
      ClusterCoordinator::Create(Cluster::FromTfConfig(config).value(), {.rpc = {.token = "t"}}).value();
  EXPECT_EQ(coordinator->num_workers(), 2);
  EXPECT_EQ(NumberOf(coordinator->Schedule("twice", {Tensor(4.0)}).value()), 8);
}

TEST_F(CoordinatorTest, AChildOfAForkHasNone) {
  if (!kMayFork) GTEST_SKIP();
  StartWorkers(1);
  auto coordinator = Coordinate();
  const RemoteValue value = coordinator->Schedule("twice", {Tensor(4.0)}).value();
  const absl::Status in_child = StatusOfChild([&] {
    const absl::Status status = coordinator->Schedule("twice", {Tensor(4.0)}).status();
    const absl::Status joined = coordinator->Join();
    coordinator.reset();
    workers_.clear();
    return joined == status ? status : absl::OkStatus();
  });
  EXPECT_EQ(in_child.code(), absl::StatusCode::kFailedPrecondition) << in_child;
  EXPECT_EQ(NumberOf(value), 8);
}

TEST(RunRequestTest, ComesAsItWent) {
  const RunRequest request{.coordinator = "c",
                           .closure = "step",
                           .worker = {.index = 2, .count = 5},
                           .resources = {PerWorker(7, "data"), PerWorker()},
                           .arguments = {Tensor(1.5f)}};
  const RunRequest read = RunRequestFromMessage(RunMessage(request)).value();
  EXPECT_EQ(read.coordinator, "c");
  EXPECT_EQ(read.closure, "step");
  EXPECT_EQ(read.worker.index, 2);
  EXPECT_EQ(read.worker.count, 5);
  ASSERT_EQ(read.resources.size(), 2u);
  EXPECT_EQ(read.resources[0].id, 7);
  EXPECT_EQ(read.resources[0].name, "data");
  ASSERT_EQ(read.arguments.size(), 1u);
}

}  // namespace
}  // namespace meshwork::coordinator_test
