#include "meshwork/ir/plan/memory_report.h"

#include <algorithm>
#include <span>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/memory_plan.h"
#include "meshwork/ir/plan/storage.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/text.h"

namespace meshwork {
namespace {

// Per value: its bytes, and when they are in use; 0 bytes if it has no memory of its own. Then the memory of the bodies
// of nodes, and the values that are copied aside at the end of the step. There is a tick per node, and one for the end.
struct Lives {
  std::vector<BufferRequest> requests;
  std::vector<ValueId> values;  // per request
};

// The memory that the body of a loop or a branch needs besides its arguments and results, which are values of the
// program around it: slices, new values of carries that are not written over the old ones, other values of the body,
// and sums of bf16 in f32. 0 for other nodes.
int64_t BodyBytes(const Graph& local, const Node& node);

Lives LivesOf(const Graph& local, const std::vector<ValueId>& storages) {
  const int end = static_cast<int>(local.nodes().size());
  Lives lives;
  for (size_t v = 0; v < local.values().size(); ++v) {
    const ValueInfo& info = local.values()[v];
    const int begin = std::max(info.node, 0);
    const auto id = static_cast<ValueId>(v);
    lives.requests.push_back({storages[v] == id ? info.type.bytes() : 0, begin, begin});
    lives.values.push_back(id);
  }
  const auto extend = [&](ValueId value, int tick) {
    int& last = lives.requests[storages[value]].end;
    last = std::max(last, tick);
  };
  for (int n = 0; n < end; ++n) {
    for (ValueId operand : local.nodes()[n].operands) extend(operand, n);
    for (ValueId result : local.nodes()[n].results) extend(result, n);
  }
  for (const Argument& argument : local.arguments())
    if (argument.is_variable) extend(argument.value, end);
  for (const OutputInfo& output : local.outputs()) extend(output.value, end);
  for (const VariableUpdate& update : local.updates()) extend(update.value, end);
  for (int n = 0; n < end; ++n) {
    const int64_t bytes = BodyBytes(local, local.nodes()[n]);
    if (bytes == 0) continue;
    lives.requests.push_back({bytes, n, n});
    lives.values.push_back(local.nodes()[n].results[0]);
  }
  const std::vector<bool> aside = SetAside(local);
  for (size_t u = 0; u < aside.size(); ++u) {
    if (!aside[u]) continue;
    const ValueId value = local.updates()[u].value;
    lives.requests.push_back({local.value(value).type.bytes(), end, end});
    lives.values.push_back(value);
  }
  return lives;
}

int64_t BodyBytes(const Graph& local, const Node& node) {
  if (!IsControl(node)) return 0;
  const ControlShape shape = ShapeOfControl(node);
  int64_t most = 0;
  for (const auto& region : node.regions) {
    Lives lives = LivesOf(*region, PlanStorages(*region));
    for (size_t a = 0; a < region->arguments().size(); ++a) {
      const bool is_slice =
          static_cast<int>(a) >= shape.carries && static_cast<int>(a) < shape.carries + shape.slices;
      if (!is_slice) lives.requests[region->arguments()[a].value].bytes = 0;
    }
    most = std::max(most, MaxLiveBytes(lives.requests));
  }
  for (ValueId sum : std::span(node.results).last(static_cast<size_t>(shape.sums))) {
    const Type& type = local.value(sum).type;
    if (const DType wide = WideDType(type.dtype); wide != type.dtype) most += Type{wide, type.shape}.bytes();
  }
  return most;
}

// Per storage, the last value that lies in it when node `n` has run, views left out; an argument stays itself.
std::vector<ValueId> Occupants(const Graph& local, const std::vector<ValueId>& storages, int n) {
  std::vector<ValueId> occupants = storages;
  const std::vector<ValueId> contents = FindContents(local);
  for (size_t v = 0; v < storages.size(); ++v) {
    const bool over_argument = local.value(storages[v]).node < 0;
    const auto id = static_cast<ValueId>(v);
    if (!over_argument && contents[v] == id && local.values()[v].node <= n) occupants[storages[v]] = id;
  }
  return occupants;
}

}  // namespace

MemoryReport ReportMemory(const Graph& local, int largest) {
  const std::vector<ValueId> storages = PlanStorages(local);
  const Lives lives = LivesOf(local, storages);
  const int end = static_cast<int>(local.nodes().size());
  const std::vector<int64_t> live = LiveBytes(lives.requests);
  MemoryReport report;
  for (int tick = 0; tick < static_cast<int>(live.size()); ++tick) {
    if (live[tick] == report.peak_bytes) ++report.peak_nodes;
    if (live[tick] <= report.peak_bytes) continue;
    report.peak_bytes = live[tick];
    report.node = tick;
    report.peak_nodes = 1;
  }
  const std::vector<ValueId> occupants = Occupants(local, storages, std::min(report.node, end));
  for (size_t i = 0; i < lives.requests.size(); ++i) {
    const BufferRequest& request = lives.requests[i];
    if (request.bytes == 0 || request.begin > report.node || request.end < report.node) continue;
    report.largest.push_back({occupants[lives.values[i]], request.bytes});
  }
  report.num_live = static_cast<int64_t>(report.largest.size());
  const auto kept = report.largest.begin() + std::min<int64_t>(largest, report.num_live);
  std::partial_sort(report.largest.begin(), kept, report.largest.end(),
                    [](const LiveValue& a, const LiveValue& b) {
                      return a.bytes != b.bytes ? a.bytes > b.bytes : a.value < b.value;
                    });
  report.largest.erase(kept, report.largest.end());
  return report;
}

std::vector<int64_t> LiveBytesOfNodes(const Graph& local) {
  std::vector<int64_t> live = LiveBytes(LivesOf(local, PlanStorages(local)).requests);
  live.resize(local.nodes().size() + 1, 0);  // nothing may be live at the end
  return live;
}

int64_t LogicalPeakBytes(const Graph& local) { return ReportMemory(local, 0).peak_bytes; }

std::string DescribePoint(const Graph& local, const MemoryReport& report) {
  if (report.node == static_cast<int>(local.nodes().size())) return "the end of the step";
  const std::vector<std::string> names = ValueNames(local);
  std::string out = local.Describe(report.node);
  constexpr size_t kNamed = 3;
  const auto& results = local.nodes()[report.node].results;
  for (size_t r = 0; r < std::min(kNamed, results.size()); ++r) out += ", " + names[results[r]];
  return out + (results.size() > kNamed ? ", …" : "");
}

std::string DescribeLive(const Graph& local, ValueId value) {
  const ValueInfo& info = local.value(value);
  const std::string text = fmt::format("{}: {}", ValueNames(local)[value], PrintType(info));
  if (info.node >= 0) return fmt::format("{} by {}", text, local.Describe(info.node));
  const auto argument = std::find_if(local.arguments().begin(), local.arguments().end(),
                                     [&](const Argument& candidate) { return candidate.value == value; });
  return local.Describe((argument->is_variable ? "var " : "") + text, info.location);
}

std::string PrintMemoryReport(const Graph& local, const MemoryReport& report) {
  std::string out = fmt::format("{} B per device at {}; ", report.peak_bytes, DescribePoint(local, report));
  const auto shown = static_cast<int64_t>(report.largest.size());
  out += shown == report.num_live ? Count(report.num_live, "value") + " there:\n"
                                  : fmt::format("the largest of {} values there:\n", report.num_live);
  for (const LiveValue& live : report.largest)
    out += fmt::format("  {:>12} B  {}\n", live.bytes, DescribeLive(local, live.value));
  return out;
}

}  // namespace meshwork
