// The report that a program that trains on digits writes about a run.
#pragma once

#include "absl/status/status.h"
#include "examples/support/digits_options.h"
#include "examples/support/digits_training.h"
#include "meshwork/core.h"

namespace meshwork {

// Writes the report as JSON to options.json.
absl::Status WriteJson(const DigitsModel& model, const Session& session, const Data& data,
                       const DigitsOptions& options, const TrainLog& log);

// Writes a picture of loss and accuracy over the steps to options.plot.
absl::Status WritePlot(const DigitsModel& model, const Session& session, const Data& data,
                       const DigitsOptions& options, const TrainLog& log);

}  // namespace meshwork
