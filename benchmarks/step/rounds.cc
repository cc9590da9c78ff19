#include "benchmarks/step/rounds.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>

#include "benchmarks/machine.h"
#include "benchmarks/step/step.h"
#include "meshwork.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// Batches of the data, over which all steps cycle.
constexpr int64_t kBatches = 8;
constexpr int64_t kWarmUp = 5;
constexpr double kLargestDistance = 0.1;
// Time in which waiting threads fall asleep.
constexpr std::chrono::milliseconds kPause{2};

struct Runner {
  std::string variant;
  std::unique_ptr<Trainee> trainee;
  int64_t steps = 0;
  double min_seconds = 1e300;
  std::vector<double> rounds = {};  // seconds of a step
  std::optional<double> distance = {};
};

double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class Rounds {
 public:
  Rounds(int64_t batch, Tensor images, Tensor labels)
      : batch_(batch), images_(std::move(images)), labels_(std::move(labels)) {}

  // The seconds it took.
  absl::StatusOr<double> Step(Runner& runner) const {
    const int64_t first = runner.steps++ % kBatches * batch_;
    const Tensor images = images_.Rows(first, first + batch_), labels = labels_.Rows(first, first + batch_);
    absl::Status status;
    const double seconds = Seconds([&] { status = runner.trainee->Step(images, labels); });
    MESHWORK_RETURN_IF_ERROR(status);
    return seconds;
  }

  absl::Status Round(Runner& runner, int64_t steps) {
    std::this_thread::sleep_for(kPause);
    const double before = ProcessorSeconds();
    idle_seconds_ += Seconds([] { std::this_thread::sleep_for(kPause); });
    burnt_seconds_ += ProcessorSeconds() - before;
    MESHWORK_RETURN_IF_ERROR(Step(runner).status());
    std::vector<double> seconds;
    for (int64_t step = 0; step < steps; ++step) {
      MESHWORK_ASSIGN_OR_RETURN(seconds.emplace_back(), Step(runner));
      runner.min_seconds = std::min(runner.min_seconds, seconds.back());
    }
    runner.rounds.push_back(Median(std::move(seconds)));
    return absl::OkStatus();
  }

  // The number of cores that threads keep busy while all threads should sleep.
  double IdleCores() const { return burnt_seconds_ / idle_seconds_; }

 private:
  const int64_t batch_;
  const Tensor images_, labels_;
  double idle_seconds_ = 0, burnt_seconds_ = 0;
};

// REQUIRES: all runners made the same steps on the same data.
absl::Status CompareWeights(std::vector<Runner>& runners) {
  MESHWORK_ASSIGN_OR_RETURN(const Weights expected, runners.front().trainee->CurrentWeights());
  for (Runner& runner : runners) {
    MESHWORK_ASSIGN_OR_RETURN(const Weights weights, runner.trainee->CurrentWeights());
    runner.distance = Distance(weights, expected);
    if (!(*runner.distance <= kLargestDistance))
      return absl::InternalError(
          fmt::format("{}: after {} steps the weights are {:.2e} learning rates from those of {}.",
                      runner.variant, runner.steps, *runner.distance, runners.front().variant));
  }
  return absl::OkStatus();
}

VariantResult ResultOf(const Runner& runner, const Runner& reference, bool is_alone) {
  VariantResult result{.variant = runner.variant,
                       .ms = 1e3 * Median(runner.rounds),
                       .min_ms = 1e3 * runner.min_seconds,
                       .distance = runner.distance};
  if (is_alone) return result;
  std::vector<double> ratios;
  for (size_t r = 0; r < runner.rounds.size(); ++r) ratios.push_back(runner.rounds[r] / reference.rounds[r]);
  result.ratio = Median(std::move(ratios));
  result.min_ratio = runner.min_seconds / reference.min_seconds;
  return result;
}

}  // namespace

const VariantResult* BatchResult::Find(std::string_view variant) const {
  for (const VariantResult& result : variants)
    if (result.variant == variant) return &result;
  return nullptr;
}

absl::StatusOr<BatchResult> RunRounds(const StepOptions& options, int64_t batch, int workers) {
  const Dataset digits = SyntheticDigits(kBatches * batch, 0, /*seed=*/1, F32).value().train;
  MESHWORK_ASSIGN_OR_RETURN(Tensor images, digits.column("image"));
  Shape shape = TheStepModel().image;
  shape.insert(shape.begin(), kBatches * batch);
  images = images.Reshaped(shape);
  MESHWORK_ASSIGN_OR_RETURN(Tensor labels, digits.column("label"));
  Rounds rounds(batch, std::move(images), std::move(labels));

  std::vector<Runner> runners;
  for (const std::string& variant : options.variants) {
    absl::StatusOr<std::unique_ptr<Trainee>> trainee = MakeTrainee(variant, batch, workers);
    if (!trainee.ok()) return Annotate(trainee.status(), fmt::format("\"{}\": ", variant));
    runners.push_back({variant, *std::move(trainee)});
    for (int64_t step = 0; step < kWarmUp; ++step)
      MESHWORK_RETURN_IF_ERROR(rounds.Step(runners.back()).status());
  }

  BatchResult result{.batch = batch, .steps = options.StepsOf(batch)};
  if (!options.is_alone) {
    MESHWORK_RETURN_IF_ERROR(CompareWeights(runners));
    MESHWORK_ASSIGN_OR_RETURN(result.floors, MeasureFloors(batch, workers));
  }
  for (int64_t repeat = 0; repeat < options.repeats; ++repeat) {
    for (size_t i = 0; i < runners.size(); ++i) {
      Runner& runner = runners[repeat % 2 == 0 ? i : runners.size() - 1 - i];
      MESHWORK_RETURN_IF_ERROR(rounds.Round(runner, result.steps));
    }
  }
  for (const Runner& runner : runners)
    result.variants.push_back(ResultOf(runner, runners.front(), options.is_alone));
  result.idle_cores = rounds.IdleCores();
  return result;
}

}  // namespace meshwork
