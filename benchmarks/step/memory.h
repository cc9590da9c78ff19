// The memory that one variant takes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace meshwork {

// MB, the most that a process has which runs this variant alone, by this program's --only. Errors: the
// process cannot be started or fails.
absl::StatusOr<double> PeakMegabytesAlone(const std::string& variant, int64_t batch);

}  // namespace meshwork
