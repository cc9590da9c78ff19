// The clock of what happens now and then in a training.
#pragma once

#include <chrono>

namespace meshwork {

// Seconds since some time in the past. Never goes back.
inline double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace meshwork
