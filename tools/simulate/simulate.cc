#include "meshwork/tools/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/step_clock.h"
#include "meshwork/tools/simulate/finish.h"

namespace meshwork {
namespace {

// A program as items, one per node and one for the end.
class GraphItems {
 public:
  GraphItems(const Machine& machine, const SimulateOptions& options) : machine_(machine), options_(options) {}

  // `outermost`: the node of the outermost loop around the program; -1: it is that of the step.
  std::vector<StepItem> Of(const Graph& local, int outermost = -1) {
    std::vector<StepItem> items;
    std::vector<int> last_crossing;
    for (size_t n = 0; n < local.nodes().size(); ++n) {
      const Node& node = local.nodes()[n];
      SimulatedSpan span{.node = outermost < 0 ? static_cast<int>(n) : outermost,
                         .op = std::string(node.row->name),
                         .where = node.location.ToString(),
                         .has_body = IsControl(node)};
      StepItem item;
      for (ValueId operand : node.operands)
        if (const int made = local.value(operand).node; made >= 0) item.reads.push_back(made);
      if (IsControl(node)) {
        // It has the device and the links for itself.
        item.reads.insert(item.reads.end(), last_crossing.begin(), last_crossing.end());
        item.alone = true;
        for (const auto& region : node.regions) item.bodies.push_back(Of(*region, span.node));
        item.kind = StepItem::Kind::kRepeat;
        item.times = TimesOf(node);
        if (node.row->control == ControlKind::kIf) {
          item.kind = StepItem::Kind::kBranch;
          std::reverse(item.bodies.begin(), item.bodies.end());  // of equals the last one counts
        }
      } else if (Communicates(local, node)) {
        item.kind = StepItem::Kind::kCross;
        item.seconds = machine_.op_seconds + CollectiveSeconds(local, node, machine_.topology);
        item.early = options_.overlap;
        item.waits = !options_.overlap;
        span.lane = Lane::kLinks;
        span.op = NameOfCollective(local, node);
        span.collective = collectives_++;
        last_crossing = {static_cast<int>(n)};
      } else {
        item.seconds = ComputeSeconds(local, node, machine_);
      }
      item.label = static_cast<int>(spans_.size());
      spans_.push_back(std::move(span));
      items.push_back(std::move(item));
    }
    items.push_back({.reads = std::move(last_crossing)});
    return items;
  }

  // By label.
  const std::vector<SimulatedSpan>& spans() const { return spans_; }

 private:
  const Machine& machine_;
  const SimulateOptions options_;
  int collectives_ = 0;  // in the order of Explain
  std::vector<SimulatedSpan> spans_;
};

}  // namespace

std::string_view NameOf(Lane lane) { return lane == Lane::kCompute ? "compute" : "links"; }

Simulation Simulate(const Graph& local, const Machine& machine, const SimulateOptions& options) {
  GraphItems items(machine, options);
  const StepTimes times = TimeItems(items.Of(local));
  return FinishSimulation(local, times, items.spans(), times.reached, machine);
}

Simulation FinishSimulation(const Graph& local, const StepTimes& times,
                            const std::vector<SimulatedSpan>& spans, const std::vector<double>& passed,
                            const Machine& machine) {
  Simulation step{.seconds = times.clock.now + machine.step_seconds,
                  .compute_seconds = times.clock.compute_seconds + machine.step_seconds,
                  .link_seconds = times.clock.link_seconds,
                  .waited_seconds = times.clock.waited_seconds};
  for (const ItemSpan& at : times.spans) {
    SimulatedSpan& span = step.spans.emplace_back(spans[static_cast<size_t>(at.label)]);
    span.start = at.start;
    span.seconds = at.seconds;
    span.times = at.times;
    span.depth = at.depth;
  }
  if (machine.step_seconds > 0)
    step.spans.push_back({.node = static_cast<int>(local.nodes().size()),
                          .op = "start and end of a step",
                          .start = times.clock.now,
                          .seconds = machine.step_seconds});
  const std::vector<int64_t> live = LiveBytesOfNodes(local);
  for (size_t n = 0; n < live.size(); ++n)
    step.memory.push_back({.start = passed[n], .bytes = live[n], .node = static_cast<int>(n)});
  step.peak_bytes = *std::max_element(live.begin(), live.end());
  step.limit = LimitOf(step);
  return step;
}

std::string NameOfCollective(const Graph& local, const Node& node) {
  return fmt::format("{} over {}", node.row->name, local.mesh().AxesToString(GroupAxes(local, node)));
}

absl::Status CheckTimes(const Graph& local, const Machine& machine, const Simulation& step) {
  if (std::isfinite(step.seconds) && std::isfinite(step.compute_seconds) &&
      std::isfinite(step.link_seconds) && std::isfinite(step.waited_seconds))
    return absl::OkStatus();
  std::string where = "all of it together";
  for (const SimulatedSpan& span : step.spans) {
    if (span.has_body || std::isfinite(span.start + span.seconds + span.latency)) continue;
    where = span.where.empty() ? span.op : span.op + " at " + span.where;
    break;
  }
  return InvalidArgument(
      "{} on {}: {} takes longer than a number can say, on a device of {} operations per second, {} s for each op and "
      "{} s for each step; give the machine and the links numbers nearer to those of hardware.",
      local.name, local.mesh().ToString(), where, machine.flops(), machine.op_seconds, machine.step_seconds);
}

std::string LimitOf(const Simulation& step) {
  const Lane lane = step.waited_seconds > step.compute_seconds ? Lane::kLinks : Lane::kCompute;
  for (const SimulatedCost& cost : DearestOf(step)) {
    if (cost.lane != lane || cost.seconds <= 0) continue;
    return fmt::format("{}: {}{} takes {:.0f} %", NameOf(lane), cost.op,
                       cost.where.empty() ? "" : " at " + cost.where, PercentOf(cost.seconds, step.seconds));
  }
  return "nothing: the step takes no time";
}

std::vector<SimulatedCost> DearestOf(const Simulation& simulation) {
  std::map<std::tuple<Lane, std::string, std::string>, SimulatedCost> costs;
  for (const SimulatedSpan& span : simulation.spans) {
    if (span.has_body) continue;  // the spans within it are counted
    SimulatedCost& cost = costs[{span.lane, span.op, span.where}];
    cost.lane = span.lane;
    cost.op = span.op;
    cost.where = span.where;
    cost.seconds += (span.seconds + span.latency) * static_cast<double>(span.times);
    cost.times = SaturatedSum(cost.times, span.times);
  }
  std::vector<SimulatedCost> dearest;
  for (auto& [key, cost] : costs) dearest.push_back(std::move(cost));
  std::stable_sort(dearest.begin(), dearest.end(),
                   [](const SimulatedCost& a, const SimulatedCost& b) { return a.seconds > b.seconds; });
  return dearest;
}

}  // namespace meshwork
