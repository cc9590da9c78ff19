// Log: what the library has to say besides results and errors, a line each, to standard error.
//
//   Log(LogLevel::kWarning, "{}: no worker has answered for {}.", name, DurationToString(waited));
//   // W1129 04:18:19.123456 chief 0] host-a: no worker has answered for 30 s.
//
//   SetLogSink([&](const LogLine& line) { if (line.level > LogLevel::kInfo) file << line.ToString() << '\n'; });
//
// The head is that of absl::log: the level (I, W, E), month and day, the local time; then who says it: the task of this
// process in its cluster, or the number of the process. Each line of a text of several has it. Control characters in the
// text are written as \u001b (base/quote.h).
//
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace meshwork {

enum class LogLevel : uint8_t {
  kInfo,     // what goes on: a training begins, a process is there again
  kWarning,  // the program goes on, and somebody should look
  kError     // it cannot
};

struct LogLine {
  LogLevel level = LogLevel::kInfo;
  std::chrono::system_clock::time_point time = {};
  std::string process = {};  // "worker 1"; "4711", the number of a process that has no task
  std::string text = {};     // one line or several, without a newline at the end

  // "I1129 04:18:19.123456 worker 1] text"
  std::string ToString() const;
};

// Logs a text as it is; Log formats one.
void LogText(LogLevel level, std::string_view text);
template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  LogText(level, fmt::format(format, std::forward<Args>(args)...));
}

// What gets the lines from now on, from any thread, several at a time; null: standard error. Returns the last one. A line that
// another thread logs meanwhile may still go to that. A sink may log: to standard error.
using LogSink = std::function<void(const LogLine& line)>;
LogSink SetLogSink(LogSink sink);

// Who says what is logged from now on: "worker 1"; "": the number of the process. Processes::Join and RunTask call it.
void SetLogTask(std::string task);

}  // namespace meshwork
