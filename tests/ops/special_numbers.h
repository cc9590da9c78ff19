// NaN and infinity as doubles.
#pragma once

#include <limits>

namespace meshwork {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace meshwork
