// ProgressReporter shows the progress of training: a live line on a terminal, a line per epoch in a file.
//
//   ProgressReporter progress = ProgressReporter::For(stdout, /*epochs=*/5, /*steps_per_epoch=*/469);
//   for (int64_t epoch = 0; epoch < 5; ++epoch) {
//     progress.BeginEpoch(epoch);
//     for (const Batch& b : …) progress.Step(b.rows(), loss, accuracy);
//     progress.EndEpoch(fmt::format("test accuracy {:.2f} %", 100 * test_accuracy));
//   }
//
// In a file or pipe:
//   epoch 1/5  469 steps  3.10 ms/step  loss 0.3127  accuracy 91.02 %  test accuracy 95.20 %
// On a terminal, drawn over in place up to ten times a second until the epoch ends with the line above:
//   epoch 1/5 [==>    ] 158/469  3.12 ms/step  loss 0.4731  accuracy 87.25 %  ETA 0:07
//
// Loss and accuracy are means over the examples of the epoch so far, so that a short last batch has the right
// weight. ms/step is the mean of the epoch, without the time after its last step. The ETA is that of the
// whole training.
//
// Thread safety: one thread at a time. Failures to write (a closed pipe, a full disk) are ignored: training
// goes on without its report.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace meshwork {

struct ProgressReporterOptions {
  bool is_tty = false;
  int columns = 80;  // of the terminal; the bar shrinks, and then the live line is cut, to fit
  int64_t epochs = 1;
  int64_t steps_per_epoch = 0;           // 0: unknown; then there is no bar and no ETA
  std::function<double()> seconds = {};  // a clock; empty: the steady clock
};

class ProgressReporter {
 public:
  // `out` must outlive the reporter, which does not close it.
  ProgressReporter(FILE* out, ProgressReporterOptions options);
  // Finds out whether `out` is a terminal, and how wide it is.
  static ProgressReporter For(FILE* out, int64_t epochs, int64_t steps_per_epoch);
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;
  // Leaves the terminal on a fresh line.
  ~ProgressReporter();

  // Epochs count from 0, as in BatchesOptions.
  void BeginEpoch(int64_t epoch);
  // Called after BeginEpoch if another process made the first steps of the epoch: `steps` of them, with `examples`
  // examples and these means. They count for the bar and the means, not for the time of a step.
  void Resume(int64_t steps, int64_t examples, double loss, std::optional<double> accuracy = std::nullopt);
  // After each step: how many examples it saw, and their mean loss and accuracy (of 0 to 1).
  void Step(int64_t examples, double loss, std::optional<double> accuracy = std::nullopt);
  // The same with any measures of the epoch so far, as they are shown: "loss 0.4731  top5 0.9800" (FormatMeasure).
  void Resume(int64_t steps, std::string measures);
  void Step(std::string measures);
  // `note` is added to the line, for example the result of an evaluation.
  void EndEpoch(std::string_view note = "");

 private:
  void CountStep();
  void Count(int64_t examples, double loss, std::optional<double> accuracy);
  std::string Head() const;             // "epoch 1/5"
  std::string Bar(int64_t room) const;  // " [==>     ] 158/469", at most `room` long if that can be
  std::string Measures() const;         // "  3.12 ms/step  loss 0.4731  accuracy 87.25 %"
  std::string Eta() const;              // "  ETA 0:07", or "" if it is unknown
  void DrawLiveLine(double now);
  void Print(std::string_view text);

  FILE* const out_;
  const ProgressReporterOptions options_;
  int64_t epoch_ = 0;
  int64_t steps_ = 0;          // of this epoch
  int64_t resumed_steps_ = 0;  // those of them that another process made
  int64_t earlier_steps_ = 0;  // of the epochs before it
  double earlier_seconds_ = 0;
  double began_ = 0, last_step_ = 0;  // times in this epoch
  double last_drawn_ = 0;
  bool live_ = false;  // a live line is on the terminal

  // Sums over the examples of this epoch.
  double examples_ = 0, loss_ = 0, accuracy_ = 0;
  bool has_accuracy_ = false;
  std::string measures_;  // shown in place of them
};

// "0.4731", "1.250e-07".
std::string FormatMeasure(double value);

}  // namespace meshwork
