// The processes of a cluster with parameter servers, each a thread of this process.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/train/parameter_server/rpc/parameter_server_strategy.h"
#include "support/clusters.h"
#include "support/environment.h"

namespace meshwork {

class ServedCluster {
 public:
  // `variables`: environment variables of all tasks, besides TF_CONFIG.
  ServedCluster(int workers, int servers, const Graph& graph, const ParameterServerOptions& options,
                ParameterServerStrategy::DataFunction data, std::map<std::string, std::string> variables = {})
      : workers_(workers),
        servers_(servers),
        graph_(graph),
        options_(options),
        data_(std::move(data)),
        variables_(std::move(variables)) {
    options_.session.workers = 1;
    options_.rpc.token = "a token";
    if (options_.rpc.deadline == RpcOptions().deadline) options_.rpc.deadline = std::chrono::seconds(30);
    for (int i = 0; i < 1 + workers + servers; ++i)
      addresses_.push_back(fmt::format("127.0.0.1:{}", FreePort()));
  }

  // Runs all tasks: "chief:0", "worker:0", …, "ps:0", …. Returns what the chief's Run does. `of_others`: their errors.
  absl::Status Run(const ParameterServerStrategy::ChiefFunction& body,
                   std::vector<absl::Status>* of_others = nullptr) {
    std::vector<std::string> tasks;
    for (int i = 0; i < workers_; ++i) tasks.push_back(fmt::format("worker:{}", i));
    for (int i = 0; i < servers_; ++i) tasks.push_back(fmt::format("ps:{}", i));
    std::vector<absl::Status> statuses(tasks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < tasks.size(); ++i)
      threads.emplace_back([&, i] { statuses[i] = RunTask(tasks[i], nullptr); });
    const absl::Status status = RunTask("chief:0", body);
    for (std::thread& thread : threads) thread.join();
    if (of_others != nullptr) *of_others = statuses;
    return status;
  }

  absl::Status RunTask(const std::string& task, const ParameterServerStrategy::ChiefFunction& body) const {
    std::map<std::string, std::string> variables = variables_;
    variables["TF_CONFIG"] = Config(task);
    const absl::StatusOr<ParameterServerStrategy> strategy =
        ParameterServerStrategy::Create(options_, EnvironmentOf(std::move(variables)));
    if (!strategy.ok()) return strategy.status();
    return strategy->Run(graph_, data_, body);
  }

  std::string Config(const std::string& task) const {
    const auto list = [&](int begin, int count) {
      std::vector<std::string> texts;
      for (int i = begin; i < begin + count; ++i)
        texts.push_back('"' + addresses_[static_cast<size_t>(i)] + '"');
      return fmt::format("[{}]", fmt::join(texts, ", "));
    };
    const size_t colon = task.find(':');
    return fmt::format(
        R"({{"cluster": {{"chief": {}, "worker": {}, "ps": {}}}, "task": {{"type": "{}", "index": {}}}}})",
        list(0, 1), list(1, workers_), list(1 + workers_, servers_), task.substr(0, colon),
        task.substr(colon + 1));
  }
  const std::string& server_address(int index) const {
    return addresses_[static_cast<size_t>(1 + workers_ + index)];
  }
  const ParameterServerOptions& options() const { return options_; }

 private:
  const int workers_, servers_;
  const Graph& graph_;
  ParameterServerOptions options_;
  const ParameterServerStrategy::DataFunction data_;
  const std::map<std::string, std::string> variables_;
  std::vector<std::string> addresses_;
};

}  // namespace meshwork
