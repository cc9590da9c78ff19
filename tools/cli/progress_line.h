// A line on the terminal that says how much of some long work is done:
//
//   verifying: 1.21 GiB of 4.84 GiB, 25 %
//
// It appears after half a second, and is gone at the end. Where standard error is no terminal, nothing is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace meshwork::tools {

class ProgressLine {
 public:
  ProgressLine(std::string what, int64_t total_bytes);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void Add(int64_t bytes);

 private:
  const std::string what_;
  const int64_t total_;
  const bool is_terminal_;
  int64_t done_ = 0;
  std::chrono::steady_clock::time_point next_;  // when it is drawn again
  bool is_drawn_ = false;
};

}  // namespace meshwork::tools
