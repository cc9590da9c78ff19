// Log: messages of the library besides results and errors, one line each, on standard error.
//
//   Log(LogLevel::kWarning, "{}: no worker has answered for {}.", name, DurationToString(waited));
//   // W1129 04:18:19.123456 chief 0] host-a: no worker has answered for 30 s.
//
//   SetLogSink([&](const LogLine& line) { if (line.level > LogLevel::kInfo) file << line.ToString() << '\n'; });
//
// The head of a line is that of absl::log: the level (I, W, E), month and day, the local time; then the sender: the
// task of this process in its cluster, or the number of the process. If a text has several lines, each line has the
// head. Control characters in the text are written as \u001b (base/quote.h).
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

// Sets the sink of all lines from now on; null: standard error. Returns the sink before. Any thread may call the sink,
// several at a time. A line that another thread logs meanwhile may still go to the sink before. A sink may log; its own
// lines go to standard error.
using LogSink = std::function<void(const LogLine& line)>;
LogSink SetLogSink(LogSink sink);

// Sets the sender of all lines from now on: "worker 1"; "": the number of the process. Processes::Join and RunTask call
// it.
void SetLogTask(std::string task);

}  // namespace meshwork
