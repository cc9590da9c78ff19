#include "benchmarks/checkpoint/training.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>

#include "benchmarks/machine.h"
#include "examples/support/gpt.h"
#include "examples/support/mlp.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/train/cluster/pulse.h"
#include "meshwork/train/fit/checkpoints.h"

namespace meshwork {
namespace {

struct Training {
  std::string name;
  Session session;
  Feeds feeds;
};

absl::StatusOr<Training> MlpTraining() {
  constexpr int64_t kBatch = 1024;
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus("batch=8"));
  Graph graph(mesh);
  BuildMlp(graph, kBatch, {}, Adam({.learning_rate = 1e-3}));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph));
  const Dataset digits = SyntheticDigits(/*train=*/kBatch, /*test=*/0, /*seed=*/1, F32).value().train;
  const Batch data = *digits.Batches({.batch_size = kBatch}).begin();
  return Training{"mlp_mnist", std::move(session), {{"images", data["image"]}, {"labels", data["label"]}}};
}

absl::StatusOr<Training> GptTraining() {
  constexpr int64_t kBatch = 16;
  constexpr GptModel kModel{.layers = 4, .dim = 256, .heads = 4, .sequence = 128};
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus("batch=2,seq=2,model=2"));
  Graph graph(mesh);
  BuildGpt(graph, kModel, kBatch, Adam({.learning_rate = 1e-3}));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph));
  Feeds feeds = {{"tokens", RandomTokens(kModel, kBatch, /*stream=*/0)},
                 {"targets", RandomTokens(kModel, kBatch, /*stream=*/1)}};
  return Training{"gpt", std::move(session), std::move(feeds)};
}

// Trains for so many seconds; returns the steps per second. `after` is called after each step.
absl::StatusOr<double> StepsPerSecond(Training& training, double seconds,
                                      const std::function<absl::Status()>& after) {
  int64_t steps = 0;
  absl::Status status;
  const auto start = std::chrono::steady_clock::now();
  double took = 0;
  while (status.ok() && took < seconds) {
    status = training.session.Run(training.feeds).status();
    if (status.ok()) status = after();
    ++steps;
    took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  MESHWORK_RETURN_IF_ERROR(status);
  return static_cast<double>(steps) / took;
}

absl::StatusOr<TrainingCost> Measure(const TrainingOptions& o, Training training) {
  Session& session = training.session;
  TrainingCost cost{.name = training.name};
  for (const auto& [name, variable] : session.State())
    cost.megabytes +=
        static_cast<double>(variable.type().num_elements() * DTypeSize(variable.type().dtype)) / 1e6;
  int64_t step = 0;
  const auto none = [] { return absl::OkStatus(); };
  MESHWORK_RETURN_IF_ERROR(StepsPerSecond(training, o.seconds / 4, none).status());  // not counted
  std::vector<double> plain, ratios;
  for (int64_t round = 0; round < o.rounds; ++round) {
    MESHWORK_ASSIGN_OR_RETURN(plain.emplace_back(), StepsPerSecond(training, o.seconds, none));
    Pulse pulse(/*transport=*/nullptr, {.seconds = o.every / 10});  // when one is due is found at a pulse
    MESHWORK_ASSIGN_OR_RETURN(
        const std::unique_ptr<CheckpointManager> checkpoints,
        CheckpointManager::Open(
            {.dir = o.dir + "/" + training.name, .seconds = o.every, .keep = 2, .resume = true}, session,
            pulse));
    MESHWORK_ASSIGN_OR_RETURN(const double with, StepsPerSecond(training, o.seconds, [&]() -> absl::Status {
                                ++step;
                                MESHWORK_RETURN_IF_ERROR(pulse.AfterStep());
                                MESHWORK_ASSIGN_OR_RETURN(const bool begun, checkpoints->AfterStep(step, [&] {
                                  return CheckpointNote{.step = step};
                                }));
                                if (begun) ++cost.checkpoints;
                                return absl::OkStatus();
                              }));
    ratios.push_back(with / plain.back());
    MESHWORK_RETURN_IF_ERROR(checkpoints->Finish({.step = step}));
  }
  cost.plain = Median(plain);
  cost.throughput = Median(ratios);
  return cost;
}

absl::StatusOr<std::vector<TrainingCost>> MeasureIn(const TrainingOptions& options) {
  std::vector<TrainingCost> costs;
  for (const auto make : {MlpTraining, GptTraining}) {
    MESHWORK_ASSIGN_OR_RETURN(Training training, make());
    MESHWORK_ASSIGN_OR_RETURN(costs.emplace_back(), Measure(options, std::move(training)));
  }
  return costs;
}

}  // namespace

absl::StatusOr<std::vector<TrainingCost>> MeasureTraining(const TrainingOptions& options) {
  absl::StatusOr<std::vector<TrainingCost>> costs = MeasureIn(options);
  std::error_code ignored;
  std::filesystem::remove_all(options.dir, ignored);
  return costs;
}

}  // namespace meshwork
