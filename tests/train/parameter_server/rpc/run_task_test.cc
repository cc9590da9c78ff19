// The processes of a cluster, each by its role.
#include "meshwork/train/parameter_server/rpc/run_task.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/log.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/train/parameter_server/rpc/coordinator.h"
#include "meshwork/train/parameter_server/rpc/store_server.h"
#include "support/clusters.h"
#include "support/temp_dir.h"

namespace meshwork::run_task_test {
namespace {

// Lines of this process's log, as "W chief 0: text".
class Lines {
 public:
  void Add(const LogLine& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(
        fmt::format("{} {}: {}", "IWE"[static_cast<size_t>(line.level)], line.process, line.text));
    changed_.notify_all();
  }
  int64_t CountOf(const std::string& pattern) {
    const std::lock_guard lock(mutex_);
    return CountLocked(pattern);
  }
  void Await(const std::string& pattern) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return CountLocked(pattern) > 0; }))
        << pattern << " is none of:\n"
        << fmt::format("{}", fmt::join(lines_, "\n"));
  }

 private:
  int64_t CountLocked(const std::string& pattern) const {
    return std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return std::regex_match(line, std::regex(pattern));
    });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

// A chief, which this process is, two workers and a parameter server.
class RunTaskTest : public TempDirTest {
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
    SetLogSink(nullptr);
    SetLogTask("");
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
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, LogOf(task.ToString()).c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    pid_t child = -1;
    ASSERT_EQ(posix_spawn(&child, TASK_CHILD, &actions, nullptr, arguments, environment), 0);
    posix_spawn_file_actions_destroy(&actions);
    children_[task.ToString()] = child;
  }
  // Standard error of a child.
  std::string LogOf(const std::string& task) const { return Path(task); }
  // Waits until a line in the log of a child matches.
  void AwaitLine(const std::string& task, const std::string& pattern) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::string log;
    while (std::chrono::steady_clock::now() < end) {
      log = ReadFile(LogOf(task)).value();
      if (std::regex_search(log, std::regex(pattern))) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << task << " never says \"" << pattern << "\"; it has said:\n" << log;
  }
  // The exit status of a child that was told to end.
  int StatusOf(const std::string& task) {
    int status = -1;
    EXPECT_EQ(waitpid(children_.at(task), &status, 0), children_.at(task));
    children_.erase(task);
    return status;
  }

  const RpcOptions rpc_{.token = "a token", .task = "chief 0"};
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
  // ShutDownCluster gives up on processes that are away, so that all must be there before.
  EXPECT_TRUE(ShutDownServer(Chief().AddressOf({Role::kWorker, 1}), rpc_).ok());
  EXPECT_EQ(StatusOf("worker 1"), 0);
  EXPECT_TRUE(ShutDownCluster(Chief(), rpc_).ok());
  EXPECT_EQ(StatusOf("worker 0"), 0);
  EXPECT_EQ(StatusOf("ps 0"), 0);
}

TEST_F(RunTaskTest, SigtermEndsItWell) {
  const auto store = RemoteStore::Connect(Chief().AddressOf({Role::kPs, 0}), rpc_).value();
  // A process that answers has its signal handlers installed.
  const auto worker = RpcClient::Create("Worker", Chief().AddressOf({Role::kWorker, 0}), rpc_).value();
  ASSERT_TRUE(worker->Call({.call = "Ping"}).ok());
  kill(children_.at("ps 0"), SIGTERM);
  kill(children_.at("worker 0"), SIGTERM);
  EXPECT_EQ(StatusOf("ps 0"), 0);
  EXPECT_EQ(StatusOf("worker 0"), 0);
  AwaitLine("ps 0", R"(ps 0\] a signal ends this server; its version 0 is saved)");
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
  Start({Role::kWorker, 1});  // the worker comes back
  EXPECT_TRUE(coordinator->Join().ok());
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(values[static_cast<size_t>(i)].Fetch().value().at(0).Scalar().value(), 2 * i);
}

TEST_F(RunTaskTest, EachProcessSaysWhoIsLostAndWhoIsThereAgain) {
  Lines said;
  SetLogSink([&](const LogLine& line) { said.Add(line); });
  ASSERT_TRUE(RunTask(Chief(), {.rpc = rpc_}).value());
  std::string worker = Chief().AddressOf({Role::kWorker, 1}), server = Chief().AddressOf({Role::kPs, 0});
  {
    const auto coordinator = ClusterCoordinator::Create(Chief(), {.rpc = rpc_}).value();
    const auto store = RemoteStore::Connect(server, rpc_).value();
    const auto work = [&] {
      for (int i = 0; i < 40; ++i) EXPECT_TRUE(coordinator->Schedule("twice", {Tensor(1.0)}).ok());
      EXPECT_EQ(coordinator->Join(), absl::OkStatus());
      EXPECT_EQ(store->Pull({}).status(), absl::OkStatus());
    };
    work();
    for (const Task& task : {Task{Role::kWorker, 1}, Task{Role::kPs, 0}}) {
      kill(children_.at(task.ToString()), SIGKILL);
      StatusOf(task.ToString());
      // One call finds the server away, again and again, until it is there.
      std::thread other([&] { work(); });
      said.Await(fmt::format("W chief 0: .*{} is lost: .*", Chief().AddressOf(task)));
      Start(task);
      other.join();
      said.Await(fmt::format("I chief 0: .*{} is there again, after .*", Chief().AddressOf(task)));
    }
    EXPECT_EQ(said.CountOf(".* is lost: .*"), 2);
    EXPECT_EQ(said.CountOf(".* is there again, .*"), 2);
  }
  // The chief, which is this process, no longer has connections. The others wait for it alone.
  const std::string chief = Chief().AddressOf({Role::kChief, 0});
  const std::string head = R"([0-9]{4} [0-9:]{8}\.[0-9]{6} )";
  for (const std::string task : {"worker 0", "ps 0"}) {
    AwaitLine(task, "W" + head + task + R"(\] chief 0 at )" + chief + " is lost: it has no connection");
    AwaitLine(task,
              "W" + head + task + R"(\] waits for chief 0 at )" + chief + ", which has been away for 10s: ");
  }
  const auto store = RemoteStore::Connect(server, rpc_).value();
  AwaitLine("ps 0", "I" + head + R"(ps 0\] chief 0 at )" + chief + " is there again, after ");
}

TEST_F(RunTaskTest, WhoOnlyLooksForAServerSaysThatItIsLostToo) {
  Lines said;
  SetLogSink([&](const LogLine& line) { said.Add(line); });
  const std::string server = Chief().AddressOf({Role::kPs, 0});
  const auto store = RemoteStore::Connect(server, rpc_).value();
  const auto look_until = [&](const std::string& line) {
    while (said.CountOf(line) == 0) store->LookForServer(std::chrono::milliseconds(50));
  };
  store->LookForServer(std::chrono::milliseconds(50));
  EXPECT_EQ(said.CountOf(".* is lost: .*"), 0);
  kill(children_.at("ps 0"), SIGKILL);
  StatusOf("ps 0");
  look_until(fmt::format("W .*{} is lost: this process has no connection to it.*", server));
  Start({Role::kPs, 0});
  look_until(fmt::format("I .*{} is there again, after .*", server));
  EXPECT_EQ(said.CountOf(".* is lost: .*"), 1);
}

TEST_F(RunTaskTest, AClosureThatEndsItsWorkersIsGivenUp) {
  const auto coordinator = ClusterCoordinator::Create(Chief(), {.rpc = rpc_, .max_losses = 2}).value();
  const RemoteValue value = coordinator->Schedule("die").value();
  EXPECT_EQ(coordinator->Join().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(value.Fetch().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace meshwork::run_task_test
