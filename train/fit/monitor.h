// Monitor: whether an output is better than it has ever been, for callbacks (train/fit/callbacks.h). Only this room
// uses it.
//
// Thread safety: one thread at a time.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/train/fit/callbacks.h"

namespace meshwork::internal {

class Monitor {
 public:
  // `callback`: its name, for messages. Better is more than `min_delta` better.
  Monitor(std::string callback, std::string output, Best better, double min_delta = 0)
      : callback_(std::move(callback)), output_(std::move(output)), better_(better), min_delta_(min_delta) {}

  // Error: the output is one of the validation, and there is no validation.
  absl::Status Check(const FitState& state) const;
  // The output at the end of the epoch; nothing if this epoch has no validation. Error: there is no such output.
  absl::StatusOr<std::optional<double>> Read(const FitState& state) const;
  // Returns whether `value` is better than the best so far; then it becomes the best.
  bool Improves(double value);
  void Clear() { best_.reset(); }

  const std::string& output() const { return output_; }
  const std::optional<double>& best() const { return best_; }
  // The best as a number to save, NaN if there is none; and back.
  double Save() const { return best_.value_or(std::nan("")); }
  void Restore(double saved) { best_ = std::isnan(saved) ? std::nullopt : std::optional(saved); }
  // "lower", "higher".
  std::string_view Comparative() const { return better_ == Best::kLowest ? "lower" : "higher"; }

 private:
  std::string callback_, output_;
  Best better_;
  double min_delta_;
  std::optional<double> best_;
};

// The error that the Fit of parameter servers cannot use this callback (Callback::CheckServed). `what`: why, and what
// to do instead.
absl::Status NotServed(std::string_view callback, std::string_view what);

// The numbers that a callback has saved. Error: the text is not from it.
absl::StatusOr<Metrics> SavedNumbers(std::string_view callback, std::string_view saved,
                                     std::initializer_list<std::string_view> names);

}  // namespace meshwork::internal
