#include "meshwork/runtime/trace.h"

#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

// What an event of this label says, but for its place in time: `"name":…,"cat":…,"args":{…}`.
std::string LabelJson(const TraceLabel& label) {
  const auto quote = [](const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::vector<std::string> args;
  for (const auto& [name, text] : label.texts) args.push_back(fmt::format("{}:{}", quote(name), quote(text)));
  if (label.flops > 0) args.push_back(fmt::format("\"flops\":{:.0f}", label.flops));
  if (label.bytes > 0) args.push_back(fmt::format("\"bytes\":{}", label.bytes));
  return fmt::format("\"name\":{},\"cat\":{},\"args\":{{{}}}", quote(label.name), quote(label.category),
                     fmt::join(args, ","));
}

// Perfetto shows a process as a group of tracks.
struct Process {
  int pid;
  std::string_view name;
};
Process ProcessOf(TraceTrack::Kind kind) {
  return kind == TraceTrack::Kind::kWorker ? Process{2, "workers"} : Process{1, "devices"};
}

}  // namespace

std::string Trace::ToJson() const {
  std::vector<std::string> labels_json;
  for (const TraceLabel& label : labels) labels_json.push_back(LabelJson(label));
  std::string out = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":" + nlohmann::json(name).dump() +
                    "},\"traceEvents\":[";
  std::string_view separator = "\n";
  const auto add = [&](std::string_view event) {
    out += separator;
    out += event;
    separator = ",\n";
  };
  const auto add_name = [&](std::string_view what, int pid, size_t tid, const std::string& text,
                            size_t order) {
    add(fmt::format(R"({{"ph":"M","name":"{}_name","pid":{},"tid":{},"args":{{"name":{}}}}})", what, pid, tid,
                    nlohmann::json(text).dump()));
    add(fmt::format(R"({{"ph":"M","name":"{}_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
                    what, pid, tid, order));
  };
  for (const TraceTrack::Kind kind : {TraceTrack::Kind::kDevice, TraceTrack::Kind::kWorker}) {
    const Process process = ProcessOf(kind);
    add_name("process", process.pid, 0, fmt::format("{}: {}", process.name, name),
             static_cast<size_t>(process.pid));
  }
  // A track is a thread; its number is unique in the file.
  for (size_t t = 0; t < tracks.size(); ++t)
    add_name("thread", ProcessOf(tracks[t].kind).pid, t + 1, tracks[t].name, t);
  for (const TraceEvent& event : events) {
    add(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},{}}})",
                    ProcessOf(tracks[event.track].kind).pid, event.track + 1, event.start_ns / 1000,
                    event.start_ns % 1000, event.ns / 1000, event.ns % 1000, labels_json[event.label]));
  }
  return out + "\n]}\n";
}

}  // namespace meshwork
