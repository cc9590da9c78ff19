// Time, the machine and this process, for benchmarks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace meshwork {

// "Intel(R) Xeon(R) …", Linux's name of the CPU; "unknown" if Linux gives none.
std::string CpuName();

// A field of this process's status in Linux, in MB: "VmRSS", its memory; "VmHWM", its peak memory.
double MegabytesOf(const std::string& field);
// Restarts "VmHWM". If Linux does not allow this, "VmHWM" stays an upper bound.
void ForgetPeak();

// REQUIRES: at least one value.
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
