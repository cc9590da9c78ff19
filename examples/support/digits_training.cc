#include "examples/support/digits_training.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

absl::StatusOr<Measures> MeasuresOf(const StepResult& result) {
  Measures measures;
  MESHWORK_ASSIGN_OR_RETURN(measures.loss, result.scalar("loss"));
  MESHWORK_ASSIGN_OR_RETURN(measures.accuracy, result.scalar("accuracy"));
  return measures;
}

// A batch holds images as rows of pixels.
Feeds FeedsOf(const DigitsModel& model, const Batch& batch) {
  Shape shape = model.image;
  shape.insert(shape.begin(), batch.rows());
  return {{"images", batch["image"].Reshaped(shape)}, {"labels", batch["label"]}};
}

// From batches of this size, each process gathers the rows that its session reads.
BatchesOptions BatchesFor(const Session& session, int64_t batch_size) {
  return {.batch_size = batch_size, .rows = [&session](int64_t rows) { return session.RowsHere(rows); }};
}

absl::StatusOr<Measures> Evaluate(const DigitsModel& model, Session& session, const Dataset& data,
                                  int64_t batch_size) {
  Averages averages;
  for (const Batch& batch : data.Batches(BatchesFor(session, batch_size))) {
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Evaluate(FeedsOf(model, batch)));
    MESHWORK_ASSIGN_OR_RETURN(const Measures measures, MeasuresOf(result));
    averages.Add(measures, batch.rows());
  }
  return averages.mean();
}

std::string Describe(const Measures& test) {
  return fmt::format("test loss {:.4f}  test accuracy {:.2f} %", test.loss, 100 * test.accuracy);
}

// The position of the training: the steps made, the epochs completed, and the batches of the next epoch.
struct Position {
  int64_t step = 0, epoch = 0, batch = 0;
  Averages train;  // of the batches

  CheckpointFacts ToFacts() const {
    return {{"epoch", fmt::format("{}", epoch)},
            {"batch", fmt::format("{}", batch)},
            {"epoch_examples", fmt::format("{}", train.examples())},
            {"epoch_loss", fmt::format("{}", train.sum().loss)},
            {"epoch_accuracy", fmt::format("{}", train.sum().accuracy)}};
  }
  static Position From(const Resumable& training) {
    return {training.first_step(), training.Number("epoch"), training.Number("batch"),
            Averages({training.Real("epoch_loss"), training.Real("epoch_accuracy")},
                     training.Number("epoch_examples"))};
  }
};

// The rest of an epoch.
class Trainer {
 public:
  Trainer(const DigitsModel& model, Session& session, const Data& data, const DigitsOptions& options,
          Resumable& training, DigitsSummaries& summaries)
      : model_(model),
        session_(session),
        data_(data),
        options_(options),
        training_(training),
        summaries_(summaries),
        position_(Position::From(training)),
        batches_(BatchesFor(session, options.batch_size)) {
    if (options.shuffle == "on") batches_.shuffle_seed = static_cast<uint64_t>(options.run.seed);
  }

  absl::StatusOr<TrainLog> Run(bool test_before) {
    MESHWORK_ASSIGN_OR_RETURN(ahead_, PrefetchToDevice::Create(session_));
    training_.PrintFrom();
    log_.steps_before = position_.step;
    if (test_before && position_.step == 0) {
      MESHWORK_ASSIGN_OR_RETURN(log_.before, Test());
      fmt::print(Out(), "at the start  {}\n", Describe(*log_.before));
    }
    const int64_t steps_per_epoch = *data_.digits.train.Batches(batches_).size();
    ProgressReporter progress = ProgressReporter::For(Out(), options_.epochs, steps_per_epoch);
    while (position_.epoch < options_.epochs && !IsDone() && training_.goes_on()) {
      const Clock::time_point start = Clock::now();
      MESHWORK_RETURN_IF_ERROR(RunEpoch(progress));
      if (position_.batch < steps_per_epoch && !IsDone()) break;  // stopped by a signal
      const bool is_whole = position_.batch == steps_per_epoch;
      MESHWORK_ASSIGN_OR_RETURN(const Measures test, Test());
      progress.EndEpoch(Describe(test));
      MESHWORK_RETURN_IF_ERROR(summaries_.EndEpoch(position_.step, test.loss, test.accuracy));
      log_.epochs.push_back(
          {position_.epoch, position_.train.mean(), test, SecondsSince(start), position_.step});
      if (is_whole) NextEpoch();
    }
    log_.was_stopped = !training_.goes_on() && position_.epoch < options_.epochs && !IsDone();
    log_.saved = training_.End(position_.step, Facts());
    return std::move(log_);
  }

 private:
  bool IsDone() const { return options_.steps > 0 && position_.step >= options_.steps; }
  absl::StatusOr<Measures> Test() {
    return Evaluate(model_, session_, data_.digits.test, options_.batch_size);
  }
  void NextEpoch() {
    ++position_.epoch;
    position_.batch = 0;
    position_.train = {};
  }

  CheckpointFacts Facts() const {
    CheckpointFacts facts = position_.ToFacts();
    facts["optimizer"] = options_.optimizer;
    facts["learning_rate"] = fmt::format("{}", options_.learning_rate);
    return facts;
  }

  absl::Status RunEpoch(ProgressReporter& progress) {
    batches_.epoch = position_.epoch;
    batches_.first_batch = position_.batch;
    progress.BeginEpoch(position_.epoch);
    summaries_.BeginEpoch(batches_, position_.step);
    const Averages& before = position_.train;
    if (position_.batch > 0)
      progress.Resume(position_.batch, before.examples(), before.mean().loss, before.mean().accuracy);
    ahead_->Start(FeedsOfBatches(data_.digits.train.Batches(batches_),
                                 [this](const Batch& batch) { return FeedsOf(model_, batch); }));
    while (true) {
      MESHWORK_ASSIGN_OR_RETURN(const PrefetchedFeeds* const batch, ahead_->Next());
      if (batch == nullptr) break;
      MESHWORK_RETURN_IF_ERROR(Step(*batch, progress));
      if (IsDone() || !training_.goes_on()) break;
    }
    ahead_->Stop();
    return absl::OkStatus();
  }

  absl::Status Step(const PrefetchedFeeds& batch, ProgressReporter& progress) {
    if (log_.steps.empty()) log_.startup_seconds = SecondsSinceProcessStart();
    const int64_t rows = batch.feeds.at("labels").shape()[0];
    const Clock::time_point start = Clock::now();
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session_.Run(batch.feeds, batch.staged));
    if (rows == options_.batch_size) log_.step_seconds.push_back(SecondsSince(start));
    MESHWORK_ASSIGN_OR_RETURN(const Measures measures, MeasuresOf(result));
    ++position_.step;
    ++position_.batch;
    MESHWORK_RETURN_IF_ERROR(CheckLoss(session_, batch.feeds, position_.step, measures.loss, options_.run));
    position_.train.Add(measures, rows);
    log_.steps.push_back(measures);
    progress.Step(rows, measures.loss, measures.accuracy);
    summaries_.Step(position_.step, measures.loss, measures.accuracy);
    return training_.AfterStep(position_.step, [&] { return Facts(); });
  }

  const DigitsModel& model_;
  Session& session_;
  const Data& data_;
  const DigitsOptions& options_;
  Resumable& training_;
  DigitsSummaries& summaries_;
  Position position_;
  BatchesOptions batches_;
  TrainLog log_;
  std::unique_ptr<PrefetchToDevice> ahead_;
};

}  // namespace

void Averages::Add(const Measures& batch, int64_t rows) {
  sum_.loss += batch.loss * static_cast<double>(rows);
  sum_.accuracy += batch.accuracy * static_cast<double>(rows);
  examples_ += rows;
}

Measures Averages::mean() const {
  const double examples = static_cast<double>(examples_);
  return {sum_.loss / examples, sum_.accuracy / examples};
}

CheckpointFacts FactsOf(const Data& data, const DigitsOptions& options) {
  return {{"data", data.source},
          {"examples", fmt::format("{}", data.digits.train.size())},
          {"batch_size", fmt::format("{}", options.batch_size)},
          {"shuffle", options.shuffle},
          {"seed", fmt::format("{}", options.run.seed)}};
}

absl::StatusOr<TrainLog> Train(const DigitsModel& model, Session& session, const Data& data,
                               const DigitsOptions& options, Resumable& training, DigitsSummaries& summaries,
                               bool test_before) {
  return Trainer(model, session, data, options, training, summaries).Run(test_before);
}

}  // namespace meshwork
