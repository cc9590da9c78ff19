#include "meshwork/train/cluster/on_gpus.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/session/session_backend.h"

namespace meshwork {
namespace {

// The cluster of these threads, of which this is number `index`. Nobody connects to the addresses.
Cluster ThreadsAsCluster(int64_t count, int64_t index) {
  std::vector<std::string> workers;
  for (int64_t w = 0; w < count; ++w) workers.push_back(fmt::format("\"thread-{}:1\"", w));
  return Cluster::FromTfConfig(
             fmt::format(R"({{"cluster": {{"worker": [{}]}}, "task": {{"type": "worker", "index": {}}}}})",
                         fmt::join(workers, ", "), index))
      .value();
}

using Body = std::function<absl::Status(Processes&, const std::string&)>;

// Runs body(), and tells the other threads its errors and exceptions.
absl::Status RunInThread(Cluster cluster, int gpu, std::unique_ptr<Transport> end, const Body& body) {
  const std::string name = fmt::format("GPU {}", gpu);
  try {
    Processes domains = Processes::Among(std::move(cluster), std::move(end), name);
    return domains.Run([&] { return body(domains, fmt::format("cuda:{}", gpu)); });
  } catch (...) {
    return CaughtStatus(name, "there is not enough memory");
  }
}

}  // namespace

absl::Status OnEachGpu(const std::string& devices, const JoinOptions& join, const Body& body) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(devices));
  if (gpus.size() <= 1) {
    MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join(join));
    return processes.Run([&] { return body(processes, devices); });
  }
  MESHWORK_ASSIGN_OR_RETURN(const Cluster cluster, FindCluster(join.cluster, ProcessEnvironment()));
  if (!cluster.is_alone())
    return InvalidArgument(
        "Devices: {} names {} for this process, which is {}; start a process for each GPU, with devices=cuda, and each "
        "takes the next GPU of its host.",
        devices, Count(std::ssize(gpus), "GPU"), cluster.ToString());
  const auto count = std::ssize(gpus);
  std::vector<std::unique_ptr<Transport>> ends =
      MakeLoopback(count, {.deadline = std::chrono::seconds(join.deadline_seconds)});
  std::vector<absl::Status> statuses(gpus.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < gpus.size(); ++i)
    threads.emplace_back([&, i, end = std::move(ends[i])]() mutable {
      statuses[i] =
          RunInThread(ThreadsAsCluster(count, static_cast<int64_t>(i)), gpus[i], std::move(end), body);
    });
  for (std::thread& thread : threads) thread.join();
  // The other threads fail with the first one's error, behind their own names. So the shortest message is
  // that of the first.
  const absl::Status* first = nullptr;
  for (const absl::Status& status : statuses)
    if (!status.ok() && (first == nullptr || MessageOf(status).size() < MessageOf(*first).size()))
      first = &status;
  return first == nullptr ? absl::OkStatus() : *first;
}

}  // namespace meshwork
