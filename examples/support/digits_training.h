// Training on digits, with tests in between.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/support/digits_data.h"
#include "examples/support/digits_options.h"
#include "meshwork.h"

namespace meshwork {

// Means over examples.
struct Measures {
  double loss = 0, accuracy = 0;
};

struct TrainLog {
  struct Epoch {
    Measures train, test;
    double seconds = 0;  // including the test
    int64_t steps = 0;   // since training began
  };
  // Seconds from the start of the process to the start of the first step, to a hundredth. Nothing if there
  // was no step, or if Linux does not report the start.
  std::optional<double> startup_seconds;
  std::optional<Measures> before;    // on the test images, before the first step; if asked for
  std::vector<Measures> steps;       // on each step's batch
  std::vector<double> step_seconds;  // of the steps with a full batch
  std::vector<Epoch> epochs;
};

// Trains as the options say, and tests after each epoch; before the first epoch only if `test_before`. Prints
// its progress.
absl::StatusOr<TrainLog> Train(const DigitsModel& model, Session& session, const Data& data,
                               const DigitsOptions& options, bool test_before);

}  // namespace meshwork
