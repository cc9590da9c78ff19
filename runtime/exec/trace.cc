#include "meshwork/runtime/exec/trace.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

// Bytes that are not UTF-8 become U+FFFD.
std::string Quote(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Microseconds(int64_t ns) {
  const uint64_t size = ns < 0 ? -static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

// The JSON of an event of this label, without its time and track: `"name":…,"cat":…,"args":{…}`.
std::string LabelJson(const TraceLabel& label) {
  std::vector<std::string> args;
  for (const auto& [name, text] : label.texts) args.push_back(fmt::format("{}:{}", Quote(name), Quote(text)));
  if (label.flops > 0) args.push_back(fmt::format("\"flops\":{:.0f}", label.flops));
  if (label.bytes > 0) args.push_back(fmt::format("\"bytes\":{}", label.bytes));
  return fmt::format("\"name\":{},\"cat\":{},\"args\":{{{}}}", Quote(label.name), Quote(label.category),
                     fmt::join(args, ","));
}

// Perfetto shows a process as a group of tracks.
struct Group {
  int pid;
  std::string name;
};

// If only one process has recorded, its devices and its workers are the groups; otherwise each process is
// one.
std::vector<Group> GroupsOf(const Trace& trace) {
  if (trace.processes.empty()) return {{1, "devices: " + trace.name}, {2, "workers: " + trace.name}};
  std::vector<Group> groups;
  for (const std::string& process : trace.processes)
    groups.push_back({static_cast<int>(groups.size()) + 1, process});
  return groups;
}

int PidOf(const Trace& trace, const TraceTrack& track) {
  if (!trace.processes.empty()) return track.process + 1;
  return track.kind == TraceTrack::Kind::kWorker ? 2 : 1;
}

}  // namespace

std::string Trace::ToJson() const {
  std::vector<std::string> labels_json;
  for (const TraceLabel& label : labels) labels_json.push_back(LabelJson(label));
  std::string out =
      "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":" + Quote(name) + "},\"traceEvents\":[";
  std::string_view separator = "\n";
  const auto add = [&](std::string_view event) {
    out += separator;
    out += event;
    separator = ",\n";
  };
  const auto add_name = [&](std::string_view what, int pid, size_t tid, const std::string& text,
                            size_t order) {
    add(fmt::format(R"({{"ph":"M","name":"{}_name","pid":{},"tid":{},"args":{{"name":{}}}}})", what, pid, tid,
                    Quote(text)));
    add(fmt::format(R"({{"ph":"M","name":"{}_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
                    what, pid, tid, order));
  };
  for (const Group& group : GroupsOf(*this))
    add_name("process", group.pid, 0, group.name, static_cast<size_t>(group.pid));
  // A track is a thread; its number is unique in the file.
  for (size_t t = 0; t < tracks.size(); ++t)
    add_name("thread", PidOf(*this, tracks[t]), t + 1, tracks[t].name, t);
  for (const TraceEvent& event : events) {
    add(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},{}}})",
                    PidOf(*this, tracks[event.track]), event.track + 1, Microseconds(event.start_ns),
                    Microseconds(event.ns), labels_json[event.label]));
  }
  return out + "\n]}\n";
}

Trace MergeTraces(std::span<const Trace> traces) {
  Trace merged;
  if (traces.empty()) return merged;
  merged.name = traces[0].name;
  std::optional<int64_t> first;  // a trace without events has no time
  for (const Trace& trace : traces)
    if (!trace.events.empty()) first = std::min(first.value_or(trace.origin_ns), trace.origin_ns);
  merged.origin_ns = first.value_or(0);
  for (const Trace& trace : traces) {
    MESHWORK_CHECK(!trace.processes.empty());
    const int process = static_cast<int>(merged.processes.size());
    const int track = static_cast<int>(merged.tracks.size()), label = static_cast<int>(merged.labels.size());
    const int64_t later = trace.origin_ns - merged.origin_ns;
    merged.processes.insert(merged.processes.end(), trace.processes.begin(), trace.processes.end());
    for (const TraceTrack& t : trace.tracks)
      merged.tracks.push_back({t.kind, t.index, t.name, process + t.process});
    merged.labels.insert(merged.labels.end(), trace.labels.begin(), trace.labels.end());
    for (const TraceEvent& e : trace.events)
      merged.events.push_back({track + e.track, label + e.label, e.step, later + e.start_ns, e.ns});
  }
  return merged;
}

}  // namespace meshwork
