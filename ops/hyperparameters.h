// Checks of the numbers that optimizers and norms take, shared by rows, composites and train/optim/optimizers.h.
#pragma once

#include <cmath>
#include <string_view>

#include "meshwork/base/status.h"

namespace meshwork {

inline absl::Status CheckFinite(std::string_view name, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return InvalidArgument("{}={} is not finite; give a number.", name, value);
}

// For moving averages.
inline absl::Status CheckDecay(std::string_view name, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return InvalidArgument("{}={} is not in [0, 1); give at least 0 and less than 1.", name, value);
}

inline absl::Status CheckNotNegative(std::string_view name, double value) {
  MESHWORK_RETURN_IF_ERROR(CheckFinite(name, value));
  if (value >= 0) return absl::OkStatus();
  return InvalidArgument("{}={} is negative; it must be at least 0.", name, value);
}

inline absl::Status CheckPositive(std::string_view name, double value) {
  MESHWORK_RETURN_IF_ERROR(CheckFinite(name, value));
  if (value > 0) return absl::OkStatus();
  return InvalidArgument("{}={} is not above 0; give a positive number.", name, value);
}

}  // namespace meshwork
