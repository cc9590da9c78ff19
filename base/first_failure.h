// FirstFailure: the first of several checks that failed, for checks that all can be made.
//
//   return FirstFailure({CheckPositive("rate", rate), CheckDecay("momentum", momentum)});
//
// A pure function; thread-safe.
#pragma once

#include <initializer_list>
#include <vector>

#include "absl/status/status.h"

namespace meshwork {

// OK if all are.
inline absl::Status FirstFailure(std::initializer_list<absl::Status> checks) {
  for (const absl::Status& check : checks)
    if (!check.ok()) return check;
  return absl::OkStatus();
}
inline absl::Status FirstFailure(const std::vector<absl::Status>& checks) {
  for (const absl::Status& check : checks)
    if (!check.ok()) return check;
  return absl::OkStatus();
}

}  // namespace meshwork
