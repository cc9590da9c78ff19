// One training step of the MNIST MLP (784-700-500-10, Adam) in meshwork on 8 virtual devices, beside
// the same step written by hand for one device with the same libraries and as many threads.
//
// The two alternate step by step on the same data from the same weights, so that the ratio holds on
// a noisy machine. One JSON object on standard output; progress on standard error.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "benchmarks/hand_written_step.h"
#include "examples/support/flags.h"
#include "examples/support/mlp.h"
#include "meshwork.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string mesh = "batch=8";
  int64_t batch_size = 128, steps = 200, workers = 0;
};

struct Times {
  std::vector<double> ms;
  double Quantile(double q) {
    std::sort(ms.begin(), ms.end());
    return ms[static_cast<size_t>(q * static_cast<double>(ms.size() - 1))];
  }
  nlohmann::ordered_json Json() {
    return {{"min", Quantile(0)}, {"median", Quantile(0.5)}, {"p90", Quantile(0.9)}};
  }
};

template <typename F>
double Milliseconds(F&& f) {
  const Clock::time_point start = Clock::now();
  f();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

absl::StatusOr<std::vector<std::vector<float>>> WeightsOf(const Session& session) {
  std::vector<std::vector<float>> weights;
  for (const std::string& name : MlpWeights()) {
    ASSIGN_OR_RETURN(const Tensor tensor, session.Get(name));
    const std::span<const float> values = tensor.values<float>();
    weights.emplace_back(values.begin(), values.end());
  }
  return weights;
}

// Largest relative distance of a weight tensor, so that a fast wrong step is seen.
double Distance(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double worst = 0;
  for (size_t t = 0; t < a.size(); ++t) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < a[t].size(); ++i) {
      difference += (a[t][i] - b[t][i]) * static_cast<double>(a[t][i] - b[t][i]);
      norm += static_cast<double>(b[t][i]) * b[t][i];
    }
    worst = std::max(worst, std::sqrt(difference / std::max(norm, 1e-30)));
  }
  return worst;
}

absl::Status Measure(const Options& options) {
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus(options.mesh));
  const int workers = options.workers > 0 ? static_cast<int>(options.workers) : WorkerPool::DefaultWorkers();
  Graph graph(mesh);
  BuildMlp(graph, options.batch_size, F32, Adam({.learning_rate = 1e-3}));
  ASSIGN_OR_RETURN(Session session, Session::Create(graph, {.workers = workers}));
  ASSIGN_OR_RETURN(const std::vector<std::vector<float>> weights, WeightsOf(session));
  HandWrittenMlp by_hand(static_cast<int>(options.batch_size), workers, weights);

  const Dataset digits = SyntheticDigits(8 * options.batch_size, 0, /*seed=*/1, F32).train;
  ASSIGN_OR_RETURN(const Tensor images, digits.column("image"));
  ASSIGN_OR_RETURN(const Tensor labels, digits.column("label"));
  Times ours, theirs, ratios;
  constexpr int64_t kWarmUp = 5;
  double distance = 0;
  for (int64_t step = 0; step < kWarmUp + options.steps; ++step) {
    const int64_t first = step % 8 * options.batch_size;
    const Tensor x = images.Rows(first, first + options.batch_size);
    const Tensor y = labels.Rows(first, first + options.batch_size);
    absl::Status status;
    const double our_ms = Milliseconds([&] {
      status = session.Run({{"images", x}, {"labels", y}}).status();
    });
    RETURN_IF_ERROR(status);
    const double their_ms =
        Milliseconds([&] { by_hand.Step(x.values<float>().data(), y.values<int32_t>().data()); });
    if (step == kWarmUp - 1) {
      ASSIGN_OR_RETURN(const std::vector<std::vector<float>> trained, WeightsOf(session));
      distance = Distance(trained, by_hand.weights());
    }
    if (step < kWarmUp) continue;
    ours.ms.push_back(our_ms);
    theirs.ms.push_back(their_ms);
    ratios.ms.push_back(our_ms / their_ms);
    if (step % 50 == 0) fmt::print(stderr, "step {}: {:.2f} ms, by hand {:.2f} ms\n", step, our_ms, their_ms);
  }
  if (distance > 1e-3)
    return absl::InternalError(
        fmt::format("after {} steps the weights differ by {:.2e}.", kWarmUp, distance));
  nlohmann::ordered_json json = {{"benchmark", "mlp_step"},
                                 {"mesh", mesh.ToString()},
                                 {"batch_size", options.batch_size},
                                 {"workers", workers},
                                 {"steps", options.steps},
                                 {"meshwork_ms", ours.Json()},
                                 {"hand_written_ms", theirs.Json()},
                                 {"ratio_of_medians", ours.Quantile(0.5) / theirs.Quantile(0.5)},
                                 {"ratio_step_by_step", ratios.Json()},
                                 {"distance_after_warm_up", distance}};
  fmt::print("{}\n", json.dump(2));
  return absl::OkStatus();
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  meshwork::Options options;
  meshwork::FlagTable flags("mlp_step", "Measures a training step beside the same step written by hand.");
  flags.Text("mesh", "named axes", &options.mesh);
  flags.Int("batch-size", "images per step", &options.batch_size, 1);
  flags.Int("steps", "measured steps of each", &options.steps, 1);
  flags.Int("workers", "threads of each; 0: one per core", &options.workers, 0);
  absl::Status status = flags.Parse(argc, argv);
  if (flags.help_asked()) {
    fmt::print("{}", flags.Help());
    return 0;
  }
  if (status.ok()) status = meshwork::Measure(options);
  if (status.ok()) return 0;
  fmt::print(stderr, "mlp_step: {}\n", meshwork::MessageOf(status));
  return 2;
}
