// The clock that programs measure time with.
#pragma once

#include <chrono>

namespace meshwork {

// Seconds since some moment; never goes back, whatever is done to the time of day.
inline double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace meshwork
