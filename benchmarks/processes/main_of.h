// The main function of a benchmark of several processes.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {

// Prints the help that Options::help asks for, or runs. Exit code 2: the input is wrong; 1: something failed.
template <typename Options>
int MainOf(std::string_view name, const absl::StatusOr<Options>& options,
           absl::Status (*run)(const Options& options)) {
  if (options.ok() && options->help) {
    fmt::print("{}", options->help_text);
    return 0;
  }
  const absl::Status status = options.ok() ? run(*options) : options.status();
  if (status.ok()) return 0;
  fmt::print(stderr, "{}: {}\n", name, MessageOf(status));
  return !options.ok() || status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace meshwork
