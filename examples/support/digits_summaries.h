// The output of --tensorboard: loss, accuracy and speed of the training, its weights, images and program.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/support/digits_data.h"
#include "examples/support/digits_options.h"
#include "meshwork/core.h"

namespace meshwork {

// Without --tensorboard, nothing is written. Only the chief writes. A failing disk does not end the training: its error
// is printed once on standard error.
class DigitsSummaries {
 public:
  // Writes the program. Steps after `first_step` are shown as they are logged from now on. All processes must call it.
  // Errors: those of SummaryWriter::Create; some processes have --tensorboard, and others have not.
  static absl::StatusOr<DigitsSummaries> Create(const DigitsModel& model, const Graph& graph,
                                                const Session& session, const Data& data,
                                                const DigitsOptions& options, int64_t first_step);

  // Before an epoch: its first images.
  void BeginEpoch(const BatchesOptions& batches, int64_t steps_done);
  // After each step: every tenth step writes the results of its batch, and the speed since the last write.
  void Step(int64_t step, double loss, double accuracy);
  // After an epoch and its test: writes their results and the weights. All processes must call it. Errors: WeightsOf's.
  absl::Status EndEpoch(int64_t step, double test_loss, double test_accuracy);
  // After the last epoch.
  void Close();

 private:
  DigitsSummaries(const DigitsModel& model, const Session& session, const Data& data,
                  const DigitsOptions& options)
      : model_(model), session_(session), data_(data), options_(options) {}
  // Prints the error, only the first time.
  void Note(const absl::Status& status);

  const DigitsModel& model_;
  const Session& session_;
  const Data& data_;
  const DigitsOptions& options_;
  std::optional<SummaryWriter> train_,
      test_;  // the chief's; two runs, which TensorBoard draws in one picture
  bool has_failed_ = false;
  int64_t timed_step_ = 0;  // the speed is measured from here on
  double timed_at_ = 0;
};

}  // namespace meshwork
