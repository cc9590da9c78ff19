#include "examples/support/digits_training.h"

#include <chrono>
#include <optional>
#include <string>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Averages {
 public:
  void Add(const Measures& batch, int64_t rows) {
    sum_.loss += batch.loss * static_cast<double>(rows);
    sum_.accuracy += batch.accuracy * static_cast<double>(rows);
    examples_ += static_cast<double>(rows);
  }
  Measures mean() const { return {sum_.loss / examples_, sum_.accuracy / examples_}; }

 private:
  Measures sum_;
  double examples_ = 0;
};

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

// Of batches of this size, each process gathers the rows that its session reads.
BatchOptions BatchesFor(const Session& session, int64_t batch_size) {
  return {.batch_size = batch_size, .rows = [&session](int64_t rows) { return session.RowsHere(rows); }};
}

absl::StatusOr<Measures> EvaluateOn(const DigitsModel& model, Session& session, const Dataset& data,
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

}  // namespace

absl::StatusOr<TrainLog> Train(const DigitsModel& model, Session& session, const Data& data,
                               const DigitsOptions& options, bool test_before) {
  TrainLog log;
  if (test_before) {
    MESHWORK_ASSIGN_OR_RETURN(log.before, EvaluateOn(model, session, data.digits.test, options.batch_size));
    fmt::print("at the start  {}\n", Describe(*log.before));
  }
  BatchOptions batches = BatchesFor(session, options.batch_size);
  if (options.shuffle == "on") batches.shuffle_seed = static_cast<uint64_t>(options.run.seed);
  ProgressReporter progress =
      ProgressReporter::For(stdout, options.epochs, data.digits.train.Batches(batches).num_batches());
  MESHWORK_ASSIGN_OR_RETURN(const ReplicaCheck replicas, MakeReplicaCheck(options.run));
  auto done = [&] { return options.steps > 0 && std::ssize(log.steps) >= options.steps; };
  for (int64_t epoch = 0; epoch < options.epochs && !done(); ++epoch) {
    const Clock::time_point start = Clock::now();
    batches.epoch = epoch;
    progress.BeginEpoch(epoch);
    Averages train;
    for (const Batch& batch : data.digits.train.Batches(batches)) {
      if (log.steps.empty()) log.startup_seconds = SecondsSinceProcessStart();
      const Clock::time_point step_start = Clock::now();
      MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run(FeedsOf(model, batch)));
      if (batch.rows() == options.batch_size) log.step_seconds.push_back(SecondsSince(step_start));
      MESHWORK_ASSIGN_OR_RETURN(const Measures measures, MeasuresOf(result));
      train.Add(measures, batch.rows());
      log.steps.push_back(measures);
      MESHWORK_RETURN_IF_ERROR(replicas.AfterStep(std::ssize(log.steps), session));
      progress.Step(batch.rows(), measures.loss, measures.accuracy);
      if (done()) break;
    }
    MESHWORK_ASSIGN_OR_RETURN(const Measures test,
                              EvaluateOn(model, session, data.digits.test, options.batch_size));
    progress.EndEpoch(Describe(test));
    log.epochs.push_back({train.mean(), test, SecondsSince(start), std::ssize(log.steps)});
  }
  return log;
}

}  // namespace meshwork
