// compare FILE: the results of ./dev bench as a Markdown table. compare BEFORE AFTER: both side by side, and
// the ratio of AFTER to BEFORE.
//
// Machines differ from day to day. Two runs can be compared by a benchmark's ratio to the reference that it
// was measured with (of_memcpy), so the table shows this ratio beside the time.
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"

namespace {

using Json = nlohmann::json;

struct Result {
  std::string name, failure;
  double seconds = 0;
  std::map<std::string, double> ratios;  // "memcpy" -> 0.8, the counter of_memcpy
};

struct Run {
  std::string machine;
  std::vector<Result> results;

  const Result* Find(const std::string& name) const {
    for (const Result& result : results)
      if (result.name == name) return &result;
    return nullptr;
  }
};

// The name without the suffix by which Google Benchmark tells the clock.
std::string NameOf(std::string name) {
  for (const std::string_view clock : {"/manual_time", "/real_time"}) {
    const size_t at = name.find(clock);
    if (at != std::string::npos) name.erase(at, clock.size());
  }
  return name;
}

double SecondsPerUnit(const std::string& unit) {
  return unit == "ns" ? 1e-9 : unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : 1;
}

Run Read(const char* file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot be opened");
  const Json json = Json::parse(in);
  const Json& context = json.at("context");
  Run run{fmt::format("{}, {} workers, {}", context.value("cpu", "unknown CPU"),
                      context.value("workers", "?"), context.value("date", "no date")),
          {}};
  for (const Json& entry : json.at("benchmarks")) {
    if (entry.value("run_type", "iteration") != "iteration") continue;
    Result result{.name = NameOf(entry.at("name"))};
    result.failure = entry.value("error_message", "");
    result.seconds = entry.value("real_time", 0.0) * SecondsPerUnit(entry.value("time_unit", "s"));
    for (const auto& [key, value] : entry.items())
      if (key.rfind("of_", 0) == 0 && value.is_number()) result.ratios[key.substr(3)] = value;
    run.results.push_back(std::move(result));
  }
  return run;
}

std::string TimeToString(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds >= 1e-6) return fmt::format("{:.3g} µs", 1e6 * seconds);
  return fmt::format("{:.3g} ns", 1e9 * seconds);
}

// "0.80 of memcpy"
std::string RatiosToString(const Result& result) {
  std::string text;
  for (const auto& [name, ratio] : result.ratios)
    text += fmt::format("{}{:.2f} of {}", text.empty() ? "" : ", ", ratio, name);
  return text;
}

// As one cell of a table.
std::string Escaped(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += "\\|";
    else cell += c == '\n' ? ' ' : c;
  }
  return cell;
}

std::string Cells(const Result* result) {
  if (result == nullptr) return "– | ";
  if (!result->failure.empty()) return fmt::format("failed: {} | ", Escaped(result->failure));
  return fmt::format("{} | {}", TimeToString(result->seconds), RatiosToString(*result));
}

std::string Change(const Result* before, const Result* after) {
  if (before == nullptr || after == nullptr || !before->failure.empty() || !after->failure.empty())
    return "–";
  std::string text = fmt::format("{:.2f}", after->seconds / before->seconds);
  for (const auto& [name, ratio] : after->ratios) {
    const auto found = before->ratios.find(name);
    if (found != before->ratios.end()) text += fmt::format("; of {} {:.2f}", name, ratio / found->second);
  }
  return text;
}

void PrintOne(const Run& run) {
  fmt::print("{}\n\n| benchmark | time | beside |\n|---|---|---|\n", run.machine);
  for (const Result& result : run.results) fmt::print("| {} | {} |\n", Escaped(result.name), Cells(&result));
}

void PrintTwo(const Run& before, const Run& after) {
  fmt::print("before: {}  \nafter: {}\n\n", before.machine, after.machine);
  fmt::print(
      "| benchmark | before | beside | after | beside | after / before |\n|---|---|---|---|---|---|\n");
  auto line = [](const std::string& name, const Result* a, const Result* b) {
    fmt::print("| {} | {} | {} | {} |\n", Escaped(name), Cells(a), Cells(b), Change(a, b));
  };
  for (const Result& result : before.results) line(result.name, &result, after.Find(result.name));
  for (const Result& result : after.results)
    if (before.Find(result.name) == nullptr) line(result.name, nullptr, &result);
}

}  // namespace

int main(int argc, char** argv) {
  const bool help = argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h");
  if (help || argc < 2 || argc > 3) {
    fmt::print(help ? stdout : stderr,
               "usage: compare FILE          one run of ./dev bench as a Markdown table\n"
               "       compare BEFORE AFTER  two runs side by side\n");
    return help ? 0 : 2;
  }
  std::vector<Run> runs;
  for (int i = 1; i < argc; ++i) {
    try {
      runs.push_back(Read(argv[i]));
    } catch (const std::exception& error) {
      fmt::print(stderr, "compare: \"{}\" is not a JSON file of Google Benchmark: {}\n", argv[i],
                 error.what());
      return 2;
    }
  }
  if (runs.size() == 1) PrintOne(runs[0]);
  else PrintTwo(runs[0], runs[1]);
  for (const Run& run : runs)
    for (const Result& result : run.results)
      if (!result.failure.empty()) return 1;
  return 0;
}
