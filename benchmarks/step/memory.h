// The memory of one variant.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace meshwork {

// Peak memory, in MB, of a process that runs only this variant (--only of this program). Errors: the process
// cannot be started or fails.
absl::StatusOr<double> PeakMegabytesAlone(const std::string& variant, int64_t batch);

}  // namespace meshwork
