// What a benchmark asks of the clock, of the machine and of its own process.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace meshwork {

// "Intel(R) Xeon(R) …", as Linux calls the CPU; "unknown" where it does not.
std::string CpuName();

// What Linux says of this process, in MB: "VmRSS", its memory, "VmHWM", the most it had.
double MegabytesOf(const std::string& field);
// "VmHWM" counts from now on; where Linux does not let us, it stays an upper bound.
void ForgetPeak();

// REQUIRES: there is a value.
double Median(std::vector<double> values);

// Seconds that f() took.
template <typename F>
double Seconds(F&& f) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace meshwork
