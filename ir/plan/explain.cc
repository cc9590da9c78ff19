#include "meshwork/ir/plan/explain.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostCollectives = 12;  // that text shows
constexpr size_t kMostCauses = 6;        // of one of them

// One cause per value, separated by "; ".
std::vector<std::string> SplitCauses(std::string_view causes) {
  std::vector<std::string> all;
  while (!causes.empty()) {
    const size_t end = causes.find("; ");
    all.emplace_back(causes.substr(0, end));
    causes.remove_prefix(end == std::string_view::npos ? causes.size() : end + 2);
  }
  return all;
}

ExplainedCollective ExplainNode(const Graph& local, const Node& node, const Topology& topology) {
  const AxisList axes = GroupAxes(local, node);
  const Traffic traffic = WireTraffic(local, node);
  ExplainedCollective out{.op = std::string(node.row->name),
                          .axes = local.mesh().AxesToString(axes),
                          .group = local.mesh().GroupSize(axes),
                          .bytes = traffic.busiest(),
                          .received = traffic.received,
                          .seconds = topology.is_assumed() ? 0 : CollectiveSeconds(local, node, topology)};
  const std::vector<std::string> causes = SplitCauses(node.cause);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ValueInfo& from = local.value(node.operands[i]);
    out.values.push_back(
        {.type = from.global.ToString(),
         .from = from.layout->ToString(),
         .to = local.value(node.results[std::min(i, node.results.size() - 1)]).layout->ToString(),
         .location = from.location.ToString(),
         .cause = i < causes.size() ? causes[i] : "",
         .bytes = from.type.bytes()});
  }
  return out;
}

// "192000 B on the wire per device, 59 µs", "1792 B on the wire per device (256 B received)".
std::string Sent(const Explanation& all, int64_t bytes, int64_t received, double seconds) {
  std::string out = fmt::format("{} B on the wire per device", bytes);
  if (received != bytes) out += fmt::format(" ({} B received)", received);
  if (all.has_times) out += ", " + TimeToString(seconds);
  return out;
}

StepCost CostOf(const ExplainedCollective& collective) {
  return {.seconds = collective.seconds, .bytes = collective.bytes};
}

// The collectives that text shows, in order.
std::vector<size_t> Shown(const Explanation& all) {
  std::vector<size_t> shown(all.collectives.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  if (shown.size() <= kMostCollectives) return shown;
  std::stable_sort(shown.begin(), shown.end(), [&](size_t a, size_t b) {
    return CostOf(all.collectives[b]) < CostOf(all.collectives[a]);
  });
  shown.resize(kMostCollectives);
  std::sort(shown.begin(), shown.end());
  return shown;
}

std::string ToText(const Explanation& all, size_t index) {
  const ExplainedCollective& c = all.collectives[index];
  const std::string what = c.values.size() == 1 ? c.values[0].type + " " + c.values[0].from
                                                : fmt::format("{} values", c.values.size());
  std::string out =
      fmt::format("{:3}. {}{}: {}, {}\n", index + 1, c.op, c.axes == "()" ? "" : " over " + c.axes, what,
                  Sent(all, c.bytes, c.received, c.seconds));
  size_t count = 0;
  for (const MovedValue& value : c.values) {
    if (value.cause.empty()) continue;
    if (++count <= kMostCauses) out += fmt::format("       {}\n", value.cause);
  }
  if (count > kMostCauses) out += fmt::format("       … and {} more values\n", count - kMostCauses);
  return out;
}

std::string ToText(const Explanation& all, const LayoutChange& change) {
  const std::string others = change.others > 0 ? fmt::format(", and {} like it,", change.others) : "";
  return fmt::format("  {}{} {} instead of {}{}: {}, {}, {} B of memory instead of {} B\n", change.value,
                     others, change.to, change.from,
                     change.location.empty() ? "" : " (" + change.location + ")",
                     Count(change.cost.collectives, "collective"),
                     Sent(all, change.cost.bytes, change.cost.received, change.cost.seconds),
                     change.cost.peak_bytes, all.cost.peak_bytes);
}

Json ToJson(const StepCost& cost, bool has_times) {
  Json json = {{"collectives", cost.collectives}, {"wire_bytes_per_device", cost.bytes}};
  if (cost.received != cost.bytes) json["received_bytes_per_device"] = cost.received;
  if (has_times) json["seconds"] = cost.seconds;
  json["peak_bytes"] = cost.peak_bytes;
  return json;
}

}  // namespace

std::string TimeToString(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

Explanation Explain(const Program& program, const Topology& topology) {
  const Graph& local = program.body;
  Explanation all{.program = local.name,
                  .mesh = local.mesh().ToString(),
                  .has_times = !topology.is_assumed(),
                  .cost = CostOf(local, topology),
                  .conflicts = program.conflicts,
                  .sharded_state = program.sharded_state,
                  .left_out = program.left_out};
  ForCollectives(local, [&](const Graph& program, const Node& node, int64_t times) {
    ExplainedCollective explained = ExplainNode(program, node, topology);
    explained.times = times;
    all.collectives.push_back(std::move(explained));
  });
  return all;
}

std::string ToText(const Explanation& all) {
  std::string out;
  if (!all.left_out.empty()) out += LeftOutWarning(all.program, all.left_out) + "\n";
  out += fmt::format("{} on mesh {}", all.program, all.mesh);
  if (all.collectives.empty()) {
    out += ": no collectives; no device needs what another holds.\n";
  } else {
    out += ", " + Count(all.cost.collectives, "collective");
    if (all.collectives.size() > 1)
      out += ", " + Sent(all, all.cost.bytes, all.cost.received, all.cost.seconds);
    out += ":\n";
  }
  const std::vector<size_t> shown = Shown(all);
  for (size_t index : shown) out += ToText(all, index);
  if (shown.size() < all.collectives.size())
    out += fmt::format("  … and {} that cost less; the JSON form has all\n",
                       all.collectives.size() - shown.size());
  if (!all.sharded_state.empty()) out += "laid out by weight-update sharding:\n";
  for (const ShardedState& state : all.sharded_state)
    out += fmt::format("  %{} {} instead of {}\n", state.variable, state.layout.ToString(),
                       state.asked.ToString());
  if (!all.conflicts.empty())
    out += fmt::format("layouts that disagree:\n  {}\n", fmt::join(all.conflicts, "\n  "));
  const LayoutSearch& search = all.search;
  if (!search.changes.empty()) out += "cheaper with one layout changed:\n";
  for (const LayoutChange& change : search.changes) out += ToText(all, change);
  if (search.tried < search.layouts)
    out += fmt::format("of {} other layouts {} were looked at\n", search.layouts, search.tried);
  return out;
}

Json ToJson(const Explanation& all) {
  Json json = {{"program", all.program}, {"mesh", all.mesh}};
  json.update(ToJson(all.cost, all.has_times));
  Json& collectives = json["list"] = Json::array();
  for (const ExplainedCollective& c : all.collectives) {
    Json item = {{"op", c.op}, {"axes", c.axes}, {"group", c.group}, {"wire_bytes_per_device", c.bytes}};
    if (c.received != c.bytes) item["received_bytes_per_device"] = c.received;
    if (c.times != 1) item["times"] = c.times;
    if (all.has_times) item["seconds"] = c.seconds;
    Json& values = item["values"] = Json::array();
    for (const MovedValue& v : c.values)
      values.push_back(
          {{"type", v.type}, {"from", v.from}, {"to", v.to}, {"location", v.location}, {"cause", v.cause}});
    collectives.push_back(std::move(item));
  }
  for (const ShardedState& state : all.sharded_state)
    json["sharded_state"].push_back(
        {{"variable", state.variable}, {"from", state.asked.ToString()}, {"to", state.layout.ToString()}});
  for (const LeftOutPass& pass : all.left_out)
    json["left_out"].push_back({{"pass", pass.pass}, {"error", pass.error}});
  json["conflicts"] = all.conflicts;
  Json& changes = json["cheaper"] = Json::array();
  for (const LayoutChange& change : all.search.changes) {
    Json item = {
        {"value", change.value}, {"from", change.from}, {"to", change.to}, {"location", change.location}};
    if (change.others > 0) item["others"] = change.others;
    item.update(ToJson(change.cost, all.has_times));
    changes.push_back(std::move(item));
  }
  json["layouts"] = all.search.layouts;
  json["layouts_tried"] = all.search.tried;
  return json;
}

}  // namespace meshwork
