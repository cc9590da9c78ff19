#include "meshwork/train/log/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "meshwork/base/clock.h"

namespace meshwork {
namespace {

constexpr double kSecondsBetweenDrawings = 0.1;
constexpr int64_t kMinBar = 4, kMaxBar = 20;
constexpr std::string_view kClearToLineEnd = "\x1b[K";

// 0:07, 12:40, 3:05:00
std::string FormatDuration(double seconds) {
  const int64_t s = std::llround(std::min(seconds, 1e9));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

std::string FormatMeasure(double value) {
  const double size = std::abs(value);
  const bool plain = size == 0 || !std::isfinite(value) || (size >= 0.001 && size < 1e6);
  return plain ? fmt::format("{:.4f}", value) : fmt::format("{:.3e}", value);
}

ProgressReporter::ProgressReporter(FILE* out, ProgressReporterOptions options)
    : out_(out), options_([&] {
        if (options.seconds == nullptr) options.seconds = SteadySeconds;
        return std::move(options);
      }()) {}

ProgressReporter ProgressReporter::For(FILE* out, int64_t epochs, int64_t steps_per_epoch) {
  ProgressReporterOptions options{.epochs = epochs, .steps_per_epoch = steps_per_epoch};
  options.is_tty = isatty(fileno(out)) == 1;
  winsize size = {};
  if (options.is_tty && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.columns = size.ws_col;
  }
  return ProgressReporter(out, std::move(options));
}

ProgressReporter::~ProgressReporter() {
  if (live_) Print("\n");
}

void ProgressReporter::BeginEpoch(int64_t epoch) {
  earlier_steps_ += steps_ - resumed_steps_;
  earlier_seconds_ += last_step_ - began_;
  epoch_ = epoch;
  steps_ = resumed_steps_ = 0;
  examples_ = loss_ = accuracy_ = 0;
  has_accuracy_ = false;
  measures_.clear();
  began_ = last_step_ = options_.seconds();
  if (options_.is_tty) DrawLiveLine(began_);
}

void ProgressReporter::Resume(int64_t steps, int64_t examples, double loss, std::optional<double> accuracy) {
  steps_ = resumed_steps_ = steps;
  Count(examples, loss, accuracy);
}

void ProgressReporter::Step(int64_t examples, double loss, std::optional<double> accuracy) {
  Count(examples, loss, accuracy);
  CountStep();
}

void ProgressReporter::Resume(int64_t steps, std::string measures) {
  steps_ = resumed_steps_ = steps;
  measures_ = std::move(measures);
}

void ProgressReporter::Step(std::string measures) {
  measures_ = std::move(measures);
  CountStep();
}

void ProgressReporter::CountStep() {
  ++steps_;
  last_step_ = options_.seconds();
  if (options_.is_tty && last_step_ - last_drawn_ >= kSecondsBetweenDrawings) DrawLiveLine(last_step_);
}

void ProgressReporter::Count(int64_t examples, double loss, std::optional<double> accuracy) {
  const double weight = static_cast<double>(examples);
  examples_ += weight;
  loss_ += weight * loss;
  accuracy_ += weight * accuracy.value_or(0);
  has_accuracy_ = accuracy.has_value();
}

void ProgressReporter::EndEpoch(std::string_view note) {
  const std::string line =
      fmt::format("{}  {} steps{}{}{}", Head(), steps_, Measures(), note.empty() ? "" : "  ", note);
  Print(options_.is_tty ? fmt::format("\r{}{}\n", line, kClearToLineEnd) : line + "\n");
  live_ = false;
}

std::string ProgressReporter::Head() const { return fmt::format("epoch {}/{}", epoch_ + 1, options_.epochs); }

std::string ProgressReporter::Bar(int64_t room) const {
  const int64_t total = options_.steps_per_epoch;
  if (total <= 0) return fmt::format("  {} steps", steps_);
  std::string count = fmt::format(" {}/{}", steps_, total);
  const int64_t width =
      std::min(room - static_cast<int64_t>(count.size() + std::string_view(" []").size()), kMaxBar);
  if (width < kMinBar) return count;
  const int64_t done = static_cast<int64_t>(static_cast<double>(std::min(steps_, total)) /
                                            static_cast<double>(total) * static_cast<double>(width));
  std::string bar(width, ' ');
  std::fill_n(bar.begin(), done, '=');
  if (done < width) bar[done] = '>';
  return fmt::format(" [{}]{}", bar, count);
}

std::string ProgressReporter::Measures() const {
  std::string text;
  if (const int64_t timed = steps_ - resumed_steps_; timed > 0) {
    const double milliseconds = 1000 * (last_step_ - began_) / static_cast<double>(timed);
    text += fmt::format("  {:.{}f} ms/step", milliseconds, milliseconds < 10 ? 2 : 1);
  }
  if (!measures_.empty()) text += "  " + measures_;
  if (examples_ > 0) {
    text += fmt::format("  loss {}", FormatMeasure(loss_ / examples_));
    if (has_accuracy_) text += fmt::format("  accuracy {:.2f} %", 100 * accuracy_ / examples_);
  }
  return text;
}

std::string ProgressReporter::Eta() const {
  const int64_t steps = earlier_steps_ + steps_ - resumed_steps_;
  if (options_.steps_per_epoch <= 0 || steps == 0) return "";
  const int64_t left = (options_.epochs - epoch_) * options_.steps_per_epoch - steps_;
  const double seconds = earlier_seconds_ + (last_step_ - began_);
  return "  ETA " + FormatDuration(seconds / static_cast<double>(steps) *
                                   static_cast<double>(std::max<int64_t>(left, 0)));
}

void ProgressReporter::DrawLiveLine(double now) {
  // A line as wide as the terminal would wrap, and the next one could not be drawn over it.
  const size_t width = static_cast<size_t>(std::max(options_.columns - 1, 0));
  const std::string head = Head(), tail = Measures() + Eta();
  std::string line =
      head + Bar(static_cast<int64_t>(width) - static_cast<int64_t>(head.size() + tail.size())) + tail;
  line.resize(std::min(line.size(), width));
  Print(fmt::format("\r{}{}", line, kClearToLineEnd));
  last_drawn_ = now;
  live_ = true;
}

void ProgressReporter::Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace meshwork
