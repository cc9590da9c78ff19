#include "meshwork/train/fit/monitor.h"

#include <cmath>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork::internal {

namespace {

constexpr std::string_view kOfValidation = "val_";

}  // namespace

absl::Status Monitor::Check(const FitState& state) const {
  if (!output_.starts_with(kOfValidation) || state.has_validation()) return absl::OkStatus();
  return InvalidArgument(
      "{}: it monitors \"{}\", and Fit has no validation data; give FitOptions::validation_data, or monitor an output of the "
      "training, such as \"loss\".",
      callback_, output_);
}

absl::StatusOr<std::optional<double>> Monitor::Read(const FitState& state) const {
  const auto found = state.logs().find(output_);
  if (found != state.logs().end()) return found->second;
  std::vector<std::string> known;
  bool is_validated = false;
  for (const auto& [name, value] : state.logs()) {
    known.push_back(name);
    is_validated = is_validated || name.starts_with(kOfValidation);
  }
  if (output_.starts_with(kOfValidation) && !is_validated) return std::nullopt;
  return absl::NotFoundError(fmt::format("{}: there is no output \"{}\"{}", callback_, output_,
                                         DidYouMeanOneOf(output_, known, "outputs")));
}

bool Monitor::Improves(double value) {
  const bool is_better =
      !std::isnan(value) && (!best_.has_value() || (better_ == Best::kLowest ? value < *best_ - min_delta_
                                                                             : value > *best_ + min_delta_));
  if (is_better) best_ = value;
  return is_better;
}

absl::Status NotServed(std::string_view callback, std::string_view what) {
  return InvalidArgument("{}: the Fit of parameter servers cannot have it: {}.", callback, what);
}

absl::StatusOr<Metrics> SavedNumbers(std::string_view callback, std::string_view saved,
                                     std::initializer_list<std::string_view> names) {
  absl::StatusOr<Metrics> numbers = FromExactText(saved);
  bool is_whole = numbers.ok();
  for (const std::string_view name : names) is_whole = is_whole && numbers->contains(std::string(name));
  if (is_whole) return numbers;
  return InvalidArgument(
      "{}: a backup has \"{}\" for it, which it has not saved; go on with the callbacks that the training began with.",
      callback, saved);
}

}  // namespace meshwork::internal
