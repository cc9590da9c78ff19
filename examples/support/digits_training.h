// Training on digits, with tests in between.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/support/digits_data.h"
#include "examples/support/digits_options.h"
#include "examples/support/digits_summaries.h"
#include "examples/support/resumable.h"
#include "meshwork/core.h"

namespace meshwork {

// Means over examples.
struct Measures {
  double loss = 0, accuracy = 0;
};

// Means over so many examples, as they come.
class Averages {
 public:
  Averages() = default;
  Averages(const Measures& sum, int64_t examples) : sum_(sum), examples_(examples) {}

  void Add(const Measures& batch, int64_t rows);
  Measures mean() const;
  const Measures& sum() const { return sum_; }
  int64_t examples() const { return examples_; }

 private:
  Measures sum_;
  int64_t examples_ = 0;
};

struct TrainLog {
  struct Epoch {
    int64_t number = 0;  // from 0
    Measures train, test;
    double seconds = 0;  // of this process, including the test
    int64_t steps = 0;   // since training began
  };
  int64_t steps_before = 0;  // of the checkpoint; the entries below come after them
  bool was_stopped = false;  // by a signal, before the end
  absl::Status saved;        // whether the last checkpoint was written
  // Seconds from the start of the process to the start of the first step, to a hundredth. Nothing if there
  // was no step, or if Linux does not report the start.
  std::optional<double> startup_seconds;
  std::optional<Measures> before;    // on the test images, before step 1; if asked for
  std::vector<Measures> steps;       // on each step's batch
  std::vector<double> step_seconds;  // of the steps with a full batch
  std::vector<Epoch> epochs;
};

// Trains as the options say, and tests after each epoch; before step 1 only if `test_before`. Prints its progress.
// Continues from the state of `training`.
absl::StatusOr<TrainLog> Train(const DigitsModel& model, Session& session, const Data& data,
                               const DigitsOptions& options, Resumable& training, DigitsSummaries& summaries,
                               bool test_before);

// The facts that determine the order of the examples, for Resumable::Begin.
CheckpointFacts FactsOf(const Data& data, const DigitsOptions& options);

}  // namespace meshwork
