// mlp_step/<mesh>/b:<batch>: one training step of the MNIST MLP (784-700-500-10, Adam, f32) on virtual
// devices, beside the same step written by hand for one device with the same libraries and as many threads.
//
// The two alternate step by step on the same data from the same weights, so that the ratio holds on a noisy
// machine. Counters: the medians of both in ms, their ratio x_by_hand.
#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "benchmarks/hand_written_step.h"
#include "benchmarks/measure.h"
#include "examples/support/mlp.h"
#include "meshwork.h"

namespace meshwork {
namespace {

using Weights = std::vector<std::vector<float>>;

constexpr int64_t kBatches = 8, kWarmUp = 5;

absl::StatusOr<Weights> WeightsOf(const Session& session) {
  Weights weights;
  for (const std::string& name : MlpWeights()) {
    ASSIGN_OR_RETURN(const Tensor tensor, session.Get(name));
    const std::span<const float> values = tensor.values<float>();
    weights.emplace_back(values.begin(), values.end());
  }
  return weights;
}

// Largest relative distance of a weight tensor, so that a fast wrong step is seen.
double Distance(const Weights& a, const Weights& b) {
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

// The two opponents and their data.
struct Pair {
  Session session;
  HandWrittenMlp by_hand;
  Tensor images, labels;
  int64_t batch;
  int64_t steps = 0;

  struct Times {
    double ours, by_hand;
  };
  absl::StatusOr<Times> Step() {
    const int64_t first = steps++ % kBatches * batch;
    const Tensor x = images.Rows(first, first + batch), y = labels.Rows(first, first + batch);
    absl::Status status;
    Times times{};
    times.ours = Seconds([&] { status = session.Run({{"images", x}, {"labels", y}}).status(); });
    RETURN_IF_ERROR(status);
    times.by_hand = Seconds([&] { by_hand.Step(x.values<float>().data(), y.values<int32_t>().data()); });
    return times;
  }
};

absl::Status Measure(benchmark::State& state, const std::string& mesh_text, int64_t batch) {
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus(mesh_text));
  const int workers = WorkerPool::DefaultWorkers();
  Graph graph(mesh);
  BuildMlp(graph, batch, F32, Adam({.learning_rate = 1e-3}));
  ASSIGN_OR_RETURN(Session session, Session::Create(graph, {.workers = workers}));
  ASSIGN_OR_RETURN(const Weights start, WeightsOf(session));
  const Dataset digits = SyntheticDigits(kBatches * batch, 0, /*seed=*/1, F32).train;
  ASSIGN_OR_RETURN(const Tensor images, digits.column("image"));
  ASSIGN_OR_RETURN(const Tensor labels, digits.column("label"));
  Pair pair{std::move(session), HandWrittenMlp(static_cast<int>(batch), workers, start), images, labels,
            batch};

  for (int64_t step = 0; step < kWarmUp; ++step) RETURN_IF_ERROR(pair.Step().status());
  ASSIGN_OR_RETURN(const Weights trained, WeightsOf(pair.session));
  const double distance = Distance(trained, pair.by_hand.weights());
  if (!(distance <= 1e-3))
    return absl::InternalError(fmt::format("after {} steps the weights differ by {:.2e}", kWarmUp, distance));

  std::vector<double> ours, by_hand;
  for (auto _ : state) {
    ASSIGN_OR_RETURN(const Pair::Times times, pair.Step());
    state.SetIterationTime(times.ours);
    ours.push_back(times.ours);
    by_hand.push_back(times.by_hand);
  }
  state.counters["ms_median"] = 1e3 * Median(ours);
  state.counters["ms_by_hand"] = 1e3 * Median(by_hand);
  state.counters["x_by_hand"] = Median(ours) / Median(by_hand);
  state.counters["distance"] = distance;
  return absl::OkStatus();
}

const bool kRegistered = [] {
  for (const char* mesh : {"batch=1", "batch=8", "batch=4,model=2"})
    for (const int64_t batch : {128, 1024})
      RegisterMeasurement(fmt::format("mlp_step/{}/b:{}", mesh, batch), benchmark::kMillisecond,
                          [mesh, batch](benchmark::State& state) { return Measure(state, mesh, batch); });
  return true;
}();

}  // namespace
}  // namespace meshwork
