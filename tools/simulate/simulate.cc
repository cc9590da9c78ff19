#include "meshwork/tools/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/overlap_clock.h"
#include "meshwork/tools/simulate/finish.h"

namespace meshwork {
namespace {

// Runs a program, that of the step or of a body, against a clock. Times are since the start of this program.
class GraphClock {
 public:
  // `collectives`: how many there were before, in the order of Explain.
  GraphClock(const Graph& local, const Machine& machine, const SimulateOptions& options, int& collectives)
      : local_(local),
        machine_(machine),
        options_(options),
        collectives_(collectives),
        ready_(local.values().size(), 0) {}

  void Run() {
    for (size_t n = 0; n < local_.nodes().size(); ++n) {
      const Node& node = local_.nodes()[n];
      passed_.push_back(clock_.now);
      if (IsControl(node)) Control(static_cast<int>(n), node);
      else if (Communicates(local_, node)) Cross(static_cast<int>(n), node);
      else Compute(static_cast<int>(n), node);
    }
    passed_.push_back(clock_.now);
    clock_.WaitUntil(clock_.links_free);
  }

  // The time at which each node was reached, and then that of the end of the step.
  const std::vector<double>& passed() const { return passed_; }

  Simulation Take() {
    Simulation step{.seconds = clock_.now,
                    .compute_seconds = clock_.compute_seconds,
                    .link_seconds = clock_.link_seconds,
                    .waited_seconds = clock_.waited_seconds};
    // A body's spans stand behind that of their loop, which may have begun at the same time.
    std::stable_sort(spans_.begin(), spans_.end(), [](const SimulatedSpan& a, const SimulatedSpan& b) {
      return std::pair(a.start, a.depth) < std::pair(b.start, b.depth);
    });
    step.spans = std::move(spans_);
    return step;
  }

 private:
  double ReadyAt(const Node& node) const {
    double ready = 0;
    for (ValueId operand : node.operands) ready = std::max(ready, ready_[operand]);
    return ready;
  }

  void Finish(const Node& node, double at) {
    for (ValueId result : node.results) ready_[result] = at;
  }

  void Compute(int n, const Node& node) {
    clock_.WaitUntil(ReadyAt(node));
    const double seconds = ComputeSeconds(local_, node, machine_);
    if (seconds > 0) Add(n, node, Lane::kCompute, clock_.now, seconds);
    clock_.Compute(seconds);
    Finish(node, clock_.now);
  }

  void Cross(int n, const Node& node) {
    const double seconds = machine_.op_seconds + CollectiveSeconds(local_, node, machine_.topology);
    const double ready = options_.overlap ? ReadyAt(node) : clock_.now;
    const double arrives = clock_.Cross(ready, seconds, /*latency=*/0);
    Add(n, node, Lane::kLinks, arrives - seconds, seconds);
    spans_.back().collective = collectives_++;
    Finish(node, arrives);
    if (!options_.overlap) clock_.WaitUntil(arrives);
  }

  // A loop or a branch, which has the device and the links for itself.
  void Control(int n, const Node& node) {
    clock_.WaitUntil(std::max(ReadyAt(node), clock_.links_free));
    Simulation body;
    if (node.row->control == ControlKind::kIf) {
      for (const auto& region : node.regions)
        if (Simulation other = RunBody(*region); other.seconds >= body.seconds) body = std::move(other);
    } else {
      for (const auto& region : node.regions) Append(body, RunBody(*region));
    }
    const int64_t times = TimesOf(node);
    const double start = clock_.now, turns = static_cast<double>(times);
    Add(n, node, Lane::kCompute, start, turns * body.seconds);
    for (SimulatedSpan& span : body.spans) {
      span.node = n;
      span.start += start;
      span.times = SaturatedProduct(span.times, times);
      ++span.depth;
      if (times > 0) spans_.push_back(std::move(span));
    }
    clock_.now += turns * body.seconds;
    clock_.links_free = clock_.now;
    clock_.compute_seconds += turns * body.compute_seconds;
    clock_.link_seconds += turns * body.link_seconds;
    clock_.waited_seconds += turns * body.waited_seconds;
    Finish(node, clock_.now);
  }

  Simulation RunBody(const Graph& region) const {
    GraphClock clock(region, machine_, options_, collectives_);
    clock.Run();
    return clock.Take();
  }

  // One body after the other.
  static void Append(Simulation& to, Simulation&& next) {
    for (SimulatedSpan& span : next.spans) {
      span.start += to.seconds;
      to.spans.push_back(std::move(span));
    }
    to.seconds += next.seconds;
    to.compute_seconds += next.compute_seconds;
    to.link_seconds += next.link_seconds;
    to.waited_seconds += next.waited_seconds;
  }

  void Add(int n, const Node& node, Lane lane, double start, double seconds) {
    std::string op = lane == Lane::kLinks ? NameOfCollective(local_, node) : std::string(node.row->name);
    spans_.push_back({.node = n,
                      .lane = lane,
                      .op = std::move(op),
                      .where = node.location.ToString(),
                      .start = start,
                      .seconds = seconds,
                      .has_body = IsControl(node)});
  }

  const Graph& local_;
  const Machine& machine_;
  const SimulateOptions options_;
  int& collectives_;
  OverlapClock clock_;
  std::vector<double> ready_;   // per value
  std::vector<double> passed_;  // per node
  std::vector<SimulatedSpan> spans_;
};

}  // namespace

std::string_view NameOf(Lane lane) { return lane == Lane::kCompute ? "compute" : "links"; }

Simulation Simulate(const Graph& local, const Machine& machine, const SimulateOptions& options) {
  int collectives = 0;
  GraphClock clock(local, machine, options, collectives);
  clock.Run();
  const std::vector<double> passed = clock.passed();
  return FinishSimulation(local, clock.Take(), passed, machine);
}

Simulation FinishSimulation(const Graph& local, Simulation step, const std::vector<double>& passed,
                            const Machine& machine) {
  if (machine.step_seconds > 0)
    step.spans.push_back({.node = static_cast<int>(local.nodes().size()),
                          .op = "start and end of a step",
                          .start = step.seconds,
                          .seconds = machine.step_seconds});
  step.seconds += machine.step_seconds;
  step.compute_seconds += machine.step_seconds;
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
