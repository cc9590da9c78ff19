// The processes of a cluster, each by its role.
#include "meshwork/parameter_server/rpc/run_task.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/parameter_server/rpc/coordinator.h"
#include "meshwork/parameter_server/rpc/store_server.h"
#include "meshwork/runtime/transport/gloo.h"
#include "support/clusters.h"

namespace meshwork::run_task_test {
namespace {

// A chief, which this process is, two workers and a parameter server.
class RunTaskTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
    for (const Task& task : {Task{Role::kWorker, 0}, Task{Role::kWorker, 1}, Task{Role::kPs, 0}}) Start(task);
  }
  void TearDown() override {
    for (const auto& [name, child] : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

  std::string TfConfig(const Task& task) const {
    return fmt::format(
        R"({{"cluster": {{"chief": ["127.0.0.1:{}"], "worker": ["127.0.0.1:{}", "127.0.0.1:{}"], )"
        R"("ps": ["127.0.0.1:{}"]}}, "task": {{"type": "{}", "index": {}}}}})",
        ports_[0], ports_[1], ports_[2], ports_[3], NameOf(task.role), task.index);
  }
  Cluster Chief() const { return Cluster::FromTfConfig(TfConfig({Role::kChief, 0})).value(); }

  void Start(const Task& task) {
    std::string program = TASK_CHILD, config = "TF_CONFIG=" + TfConfig(task);
    char* const arguments[] = {program.data(), nullptr};
    char* const environment[] = {config.data(), nullptr};
    pid_t child = -1;
    ASSERT_EQ(posix_spawn(&child, TASK_CHILD, nullptr, nullptr, arguments, environment), 0);
    children_[task.ToString()] = child;
  }
  // How a child ends that was told to.
  int StatusOf(const std::string& task) {
    int status = -1;
    EXPECT_EQ(waitpid(children_.at(task), &status, 0), children_.at(task));
    children_.erase(task);
    return status;
  }

  const RpcOptions rpc_{.token = "a token"};
  const std::vector<int> ports_ = {FreePort(), FreePort(), FreePort(), FreePort()};
  std::map<std::string, pid_t> children_;
};

TEST_F(RunTaskTest, ServesUntilTheChiefEndsIt) {
  ASSERT_TRUE(RunTask(Chief(), {.rpc = rpc_}).value());
  const auto coordinator = ClusterCoordinator::Create(Chief(), {.rpc = rpc_}).value();
  const auto store = RemoteStore::Connect(Chief().AddressOf({Role::kPs, 0}), rpc_).value();
  const RemoteValue value = coordinator->Schedule("twice", {Tensor(4.0)}).value();
  EXPECT_EQ(value.Fetch().value().at(0).Scalar().value(), 8);
  EXPECT_EQ(store->Pull({.pieces = {{"table"}}}).value().values[0].At({1, 0}).value(), 2);
  // A worker that is not there yet is not asked: so all must have come.
  EXPECT_TRUE(ShutDownServer(Chief().AddressOf({Role::kWorker, 1}), rpc_).ok());
  EXPECT_EQ(StatusOf("worker 1"), 0);
  EXPECT_TRUE(ShutDownCluster(Chief(), rpc_).ok());
  EXPECT_EQ(StatusOf("worker 0"), 0);
  EXPECT_EQ(StatusOf("ps 0"), 0);
}

TEST_F(RunTaskTest, SigtermEndsItWell) {
  const auto store = RemoteStore::Connect(Chief().AddressOf({Role::kPs, 0}), rpc_).value();
  // A process that answers catches the signal.
  const auto worker = RpcClient::Create("Worker", Chief().AddressOf({Role::kWorker, 0}), rpc_).value();
  ASSERT_TRUE(worker->Call({.call = "Ping"}).ok());
  kill(children_.at("ps 0"), SIGTERM);
  kill(children_.at("worker 0"), SIGTERM);
  EXPECT_EQ(StatusOf("ps 0"), 0);
  EXPECT_EQ(StatusOf("worker 0"), 0);
}

TEST_F(RunTaskTest, AllClosuresRunThoughAWorkerIsKilled) {
  const auto coordinator = ClusterCoordinator::Create(Chief(), {.rpc = rpc_}).value();
  std::vector<RemoteValue> values;
  for (int i = 0; i < 200; ++i)
    values.push_back(coordinator->Schedule("twice", {Tensor(double{1} * i)}).value());
  EXPECT_EQ(values[20].Fetch().value().at(0).Scalar().value(), 40);
  kill(children_.at("worker 1"), SIGKILL);
  EXPECT_EQ(values[100].Fetch().value().at(0).Scalar().value(), 200);
  EXPECT_TRUE(WIFSIGNALED(StatusOf("worker 1")));
  Start({Role::kWorker, 1});  // and comes back
  EXPECT_TRUE(coordinator->Join().ok());
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(values[static_cast<size_t>(i)].Fetch().value().at(0).Scalar().value(), 2 * i);
}

TEST_F(RunTaskTest, AClosureThatEndsItsWorkersIsGivenUp) {
  const auto coordinator = ClusterCoordinator::Create(Chief(), {.rpc = rpc_, .max_losses = 2}).value();
  const RemoteValue value = coordinator->Schedule("die").value();
  EXPECT_EQ(coordinator->Join().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(value.Fetch().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace meshwork::run_task_test
