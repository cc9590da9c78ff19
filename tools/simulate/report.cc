#include "meshwork/tools/simulate/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/tools/simulate/finish.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Json = nlohmann::ordered_json;

// At most what an int64_t holds, 292 years.
int64_t Nanoseconds(double seconds) {
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  const double nanoseconds = seconds * 1e9;
  return nanoseconds < static_cast<double>(kMost) ? std::llround(nanoseconds) : kMost;
}

// The hidden part of the links' time, in percent; 100 if nothing crosses.
double HiddenPercent(const Simulation& step) {
  return step.link_seconds > 0 ? 100 * std::max(0.0, step.hidden_seconds()) / step.link_seconds : 100;
}

// The most that is held in each of `columns` equal parts of the step.
std::vector<int64_t> HeldIn(const Simulation& step, int columns) {
  std::vector<int64_t> held(static_cast<size_t>(columns), 0);
  for (size_t m = 0; m < step.memory.size(); ++m) {
    const double end = m + 1 < step.memory.size() ? step.memory[m + 1].start : step.seconds;
    const auto column = [&](double time) {
      const double at = step.seconds > 0 ? time / step.seconds * columns : 0;
      return at >= 0 ? static_cast<int>(std::min<double>(at, columns - 1)) : 0;
    };
    for (int c = column(step.memory[m].start); c <= column(end); ++c)
      held[static_cast<size_t>(c)] = std::max(held[static_cast<size_t>(c)], step.memory[m].bytes);
  }
  return held;
}

}  // namespace

std::string MemoryChart(const Simulation& step, int rows, int columns) {
  const std::vector<int64_t> held = HeldIn(step, columns);
  std::string out;
  for (int r = rows; r >= 1; --r) {
    // A column reaches a row if it is more than half as high.
    std::string line;
    for (int64_t bytes : held)
      line += 2 * static_cast<double>(bytes) * rows > (2 * r - 1) * static_cast<double>(step.peak_bytes)
                  ? '#'
                  : ' ';
    line.erase(line.find_last_not_of(' ') + 1);
    out += fmt::format("{:>14} |{}\n", r == rows ? fmt::format("{} B", step.peak_bytes) : "", line);
  }
  return out + fmt::format("{:>14} +{:->{}}\n", "", "", columns) +
         fmt::format("{:>14}  0{:>{}}\n", "", TimeToString(step.seconds), columns - 1);
}

std::string ToText(const Graph& local, const Simulation& step, int most) {
  std::string out = fmt::format(
      "{} on {}: {}\n  compute {}; links {}, waited for {} ({:.0f} % hidden)\n  limit   {}\n", local.name,
      local.mesh().ToString(), TimeToString(step.seconds), TimeToString(step.compute_seconds),
      TimeToString(step.link_seconds), TimeToString(step.waited_seconds), HiddenPercent(step), step.limit);
  const std::vector<SimulatedCost> dearest = DearestOf(step);
  out += fmt::format("\n  {:<8} {:>9} {:>7} {:>7}  {}\n", "lane", "time", "share", "times", "op");
  double rest = 0;
  for (size_t c = 0; c < dearest.size(); ++c) {
    const SimulatedCost& cost = dearest[c];
    if (static_cast<int>(c) >= most) {
      rest += cost.seconds;
      continue;
    }
    out += fmt::format("  {:<8} {:>9} {:>5.1f} % {:>7}  {}{}\n", NameOf(cost.lane),
                       TimeToString(cost.seconds), PercentOf(cost.seconds, step.seconds), cost.times, cost.op,
                       cost.where.empty() ? "" : " (" + cost.where + ")");
  }
  if (static_cast<int>(dearest.size()) > most)
    out += fmt::format("  {:<8} {:>9} {:>5.1f} % {:>7}  {} more\n", "", TimeToString(rest),
                       PercentOf(rest, step.seconds), "", std::ssize(dearest) - most);
  return out + "\nwhat a device holds:\n" + MemoryChart(step);
}

Json ToJson(const Graph& local, const Simulation& step) {
  Json json = {{"program", local.name},
               {"mesh", local.mesh().ToString()},
               {"seconds", step.seconds},
               {"compute_seconds", step.compute_seconds},
               {"link_seconds", step.link_seconds},
               {"waited_seconds", step.waited_seconds},
               {"peak_bytes", step.peak_bytes},
               {"limit", step.limit},
               {"spans", Json::array()},
               {"memory", Json::array()}};
  for (const SimulatedSpan& span : step.spans)
    json["spans"].push_back({{"lane", NameOf(span.lane)},
                             {"op", span.op},
                             {"where", span.where},
                             {"start", span.start},
                             {"seconds", span.seconds},
                             {"latency", span.latency},
                             {"times", span.times},
                             {"depth", span.depth}});
  for (const MemoryAt& at : step.memory) json["memory"].push_back({{"start", at.start}, {"bytes", at.bytes}});
  return json;
}

Trace TraceOf(const Graph& local, const Simulation& step) {
  Trace trace{.name = fmt::format("{} on mesh {}, simulated", local.name, local.mesh().ToString()),
              .tracks = {{.kind = TraceTrack::Kind::kDevice, .name = "each device"},
                         {.kind = TraceTrack::Kind::kLink, .name = "its links"}}};
  std::map<std::pair<std::string, std::string>, int> labels;
  for (const Lane lane : {Lane::kCompute, Lane::kLinks}) {
    for (const SimulatedSpan& span : step.spans) {
      if (span.lane != lane) continue;
      const auto [at, is_new] =
          labels.emplace(std::pair(span.op, span.where), static_cast<int>(trace.labels.size()));
      if (is_new) {
        trace.labels.push_back({.name = span.op, .category = lane == Lane::kLinks ? "collective" : "kernel"});
        if (!span.where.empty()) trace.labels.back().texts.emplace_back("where", span.where);
      }
      trace.events.push_back({.track = lane == Lane::kLinks ? 1 : 0,
                              .label = at->second,
                              .start_ns = Nanoseconds(span.start),
                              .ns = Nanoseconds(span.end()) - Nanoseconds(span.start)});
    }
  }
  return trace;
}

}  // namespace meshwork
