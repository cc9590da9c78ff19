// The main function of a benchmark.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {

// For programs whose only internal errors are failing steps and wrong results: all other errors are of the input.
inline bool IsNotInternal(const absl::Status& status) { return !absl::IsInternal(status); }

// Prints the help if Options::help is set, else runs. Exit code 2: the options are wrong, or `is_of_input` says that
// the error is of the input; 1: something failed.
template <typename Options>
int MainOf(std::string_view name, const absl::StatusOr<Options>& options,
           absl::Status (*run)(const Options& options),
           bool (*is_of_input)(const absl::Status& status) = absl::IsInvalidArgument) {
  if (options.ok() && options->help) {
    fmt::print("{}", options->help_text);
    return 0;
  }
  const absl::Status status = options.ok() ? run(*options) : options.status();
  if (status.ok()) return 0;
  fmt::print(stderr, "{}: {}\n", name, MessageOf(status));
  return !options.ok() || is_of_input(status) ? 2 : 1;
}

}  // namespace meshwork
