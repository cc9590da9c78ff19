#include "meshwork/base/log.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>

#include "meshwork/base/quote.h"

namespace meshwork {
namespace {

struct Logging {
  std::mutex mutex;
  std::shared_ptr<LogSink> sink;  // null: standard error
  std::string task;
};

// Is never destroyed: static objects may log when they are.
Logging& TheLogging() {
  static auto* const logging = new Logging;
  return *logging;
}

thread_local bool is_in_sink = false;

void WriteToStderr(const LogLine& line) {
  const std::string text = line.ToString() + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);  // at once, so that lines of several processes stay whole
}

}  // namespace

std::string LogLine::ToString() const {
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch());
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm local = {};
  localtime_r(&seconds, &local);
  const std::string head =
      fmt::format("{}{:02}{:02} {:02}:{:02}:{:02}.{:06} {}] ", "IWE"[static_cast<size_t>(level)],
                  local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
                  since.count() % 1'000'000, Printable(process));
  std::string lines = head;
  for (const char c : PrintableLines(text)) {
    lines += c;
    if (c == '\n') lines += head;
  }
  return lines;
}

void LogText(LogLevel level, std::string_view text) {
  LogLine line{.level = level, .time = std::chrono::system_clock::now(), .text = std::string(text)};
  std::shared_ptr<LogSink> sink;
  {
    const std::lock_guard lock(TheLogging().mutex);
    sink = TheLogging().sink;
    line.process = TheLogging().task;
  }
  if (line.process.empty()) line.process = fmt::format("{}", getpid());
  if (sink == nullptr || is_in_sink) return WriteToStderr(line);
  is_in_sink = true;
  (*sink)(line);
  is_in_sink = false;
}

LogSink SetLogSink(LogSink sink) {
  auto next = sink == nullptr ? nullptr : std::make_shared<LogSink>(std::move(sink));
  const std::lock_guard lock(TheLogging().mutex);
  next.swap(TheLogging().sink);
  return next == nullptr ? LogSink() : *next;
}

void SetLogTask(std::string task) {
  const std::lock_guard lock(TheLogging().mutex);
  TheLogging().task = std::move(task);
}

}  // namespace meshwork
