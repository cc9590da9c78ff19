#include "tools/cli/progress_line.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "fmt/format.h"
#include "tools/cli/checkpoint_commands.h"

namespace meshwork::tools {
namespace {

constexpr std::chrono::milliseconds kFirst(500), kBetween(200);
constexpr const char* kClear = "\r\033[K";

}  // namespace

ProgressLine::ProgressLine(std::string what, int64_t total_bytes)
    : what_(std::move(what)),
      total_(total_bytes),
      is_terminal_(isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + kFirst) {}

ProgressLine::~ProgressLine() {
  if (is_drawn_) fmt::print(stderr, "{}", kClear);
}

void ProgressLine::Add(int64_t bytes) {
  done_ += bytes;
  if (!is_terminal_ || std::chrono::steady_clock::now() < next_) return;
  next_ = std::chrono::steady_clock::now() + kBetween;
  is_drawn_ = true;
  const double part = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1;
  fmt::print(stderr, "{}{}: {} of {}, {:.0f} %", kClear, what_, BytesToString(done_), BytesToString(total_),
             100 * part);
  std::fflush(stderr);
}

}  // namespace meshwork::tools
