#include "meshwork/tools/simulate/process.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/exec/profile_row.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/plan/local_program.h"
#include "meshwork/runtime/plan/step_clock.h"
#include "meshwork/tools/simulate/finish.h"
#include "meshwork/tools/simulate/pieces.h"

namespace meshwork {
namespace {

constexpr int64_t kMostProcesses = 16;  // the most whose plans are made

// An end of a transport, for making plans: it gives the number of domains, and carries nothing.
class PlannedEnd : public Transport {
 public:
  PlannedEnd(int64_t domain, int64_t num_domains, const Link& speed)
      : domain_(domain), num_domains_(num_domains) {
    set_speed(speed);
  }
  int64_t domain() const override { return domain_; }
  int64_t num_domains() const override { return num_domains_; }
  absl::StatusOr<std::vector<std::string>> ExchangeTexts(std::string_view, std::string_view) override {
    return CarriesNothing();
  }
  absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec) override { return CarriesNothing(); }
  void Abort(absl::Status) override {}

 private:
  static absl::Status CarriesNothing() {
    MESHWORK_CHECK(false, "nothing runs a plan");
    return absl::OkStatus();
  }
  const int64_t domain_, num_domains_;
};

// The outputs that are cut over devices. They stay the process's own blocks, which a session would gather.
std::set<std::string> DistributedOf(const Graph& local) {
  std::set<std::string> names;
  for (size_t o = 0; o < local.outputs().size(); ++o)
    if (!local.value(local.outputs()[o].value).layout->IsReplicated())
      names.insert(OutputName(local, static_cast<int>(o)));
  return names;
}

// How much data crosses between processes in each operation of their plans (runtime/plan/step_plan.h): the most in any
// of them. All plans of a program have the same operations, but an operation may move different amounts of data in
// each: if the rows of one process go to two others, each of these receives half of what the first one sends.
struct Crossings {
  std::map<int, double> bytes;    // by operation
  std::vector<Crossings> bodies;  // of all loops and branches of the plan, in order
};

void AddCrossings(const Schedule& schedule, Crossings& crossings) {
  size_t bodies = 0;
  for (const Instruction& instruction : schedule.instructions) {
    if (instruction.is_remote() && instruction.kind != Instruction::Kind::kWait) {
      double& most = crossings.bytes[instruction.operation];
      most = std::max(most, BytesCrossing(schedule.buffers, instruction.sends, instruction.receives));
    }
    if (instruction.loop == nullptr) continue;
    for (const LoopPlan::Body& body : instruction.loop->bodies) {
      crossings.bodies.resize(std::max(crossings.bodies.size(), bodies + 1));
      AddCrossings(body.schedule, crossings.bodies[bodies++]);
    }
  }
}

// By which instructions become items.
struct ProcessCosts {
  Link link;
  const Machine& machine;
  std::vector<SimulatedSpan>& spans;  // by label
};

// A schedule as items.
class ScheduleItems {
 public:
  // `outermost`: the node of the outermost loop around the schedule; -1: there is none.
  ScheduleItems(const Schedule& schedule, const ProcessCosts& costs, const Crossings& crossings,
                int outermost = -1)
      : schedule_(schedule), costs_(costs), crossings_(crossings), outermost_(outermost) {
    const Pieces pieces = CutPieces(schedule);
    std::vector<bool> done(pieces.all.size(), false);
    for (size_t i = 0; i < schedule.instructions.size(); ++i) {
      const Instruction& instruction = schedule.instructions[i];
      Pass(instruction);
      if (instruction.barrier)
        Add({.seconds = costs_.machine.barrier_seconds}, Span(instruction, "barrier", ""));
      if (instruction.is_remote()) Remote(instruction);
      else if (instruction.loop != nullptr) Loop(instruction);
      else if (const int p = pieces.of[i]; p < 0) Compute(instruction, SecondsOf(instruction));
      else if (const auto measured = costs_.machine.kernels.find(pieces.all[static_cast<size_t>(p)].key);
               measured == costs_.machine.kernels.end())
        Compute(instruction, SecondsOf(instruction));
      else if (!done[static_cast<size_t>(p)]) {
        done[static_cast<size_t>(p)] = true;
        Compute(instruction, measured->second);
      }
    }
  }

  const std::vector<StepItem>& items() const { return items_; }

  // The time at which the first instruction of each node starts. A node without instructions, such as a view, has the
  // time of the node before. Last, the end of the step.
  std::vector<double> Passed(const StepTimes& times) const {
    std::vector<double> passed(schedule_.graph->nodes().size(), 0);
    for (size_t n = 1; n < passed.size(); ++n) {
      const auto first = first_.find(static_cast<int>(n));
      passed[n] = std::max(passed[n - 1], first != first_.end() ? times.reached[first->second] : 0);
    }
    passed.push_back(times.clock.now);
    return passed;
  }

 private:
  void Pass(const Instruction& instruction) {
    first_.emplace(instruction.node, items_.size());
    for (const KernelStep& step : instruction.steps) {
      first_.emplace(step.node, items_.size());
      first_.emplace(step.reduces, items_.size());
    }
  }

  // The time by the roofline of the process.
  double SecondsOf(const Instruction& instruction) const {
    const Machine& machine = costs_.machine;
    double flops = 0, bytes = 0, seconds = machine.op_seconds;
    for (const KernelStep& step : instruction.steps) {
      const Node& node = schedule_.graph->nodes()[static_cast<size_t>(step.node)];
      flops += FlopsOf(*schedule_.graph, node) * static_cast<double>(step.instances) * step.needed_part();
      for (const StepBuffer& buffer : step.buffers)
        if (buffer.rows == StepBuffer::Rows::kAll)
          bytes += static_cast<double>(buffer.bytes) * step.needed_part();
    }
    const double by_bytes = machine.memory_bandwidth > 0 ? bytes / machine.memory_bandwidth : 0;
    seconds += std::max(flops / machine.flops(), by_bytes);
    ProfileRow copied;
    AddTransfers(instruction.transfers, copied);
    if (machine.copy_bandwidth > 0) seconds += static_cast<double>(copied.bytes) / machine.copy_bandwidth;
    return seconds;
  }

  SimulatedSpan Span(const Instruction& instruction, std::string op, std::string where) const {
    return {.node = outermost_ < 0 ? instruction.node : outermost_,
            .op = std::move(op),
            .where = std::move(where)};
  }

  // Leaves out an item that takes no time, unless it crosses or has bodies.
  void Add(StepItem item, SimulatedSpan span) {
    if (item.kind == StepItem::Kind::kCompute && item.seconds <= 0) return;
    item.label = static_cast<int>(costs_.spans.size());
    costs_.spans.push_back(std::move(span));
    items_.push_back(std::move(item));
  }

  void Remote(const Instruction& instruction) {
    if (instruction.kind == Instruction::Kind::kWait) {
      if (const auto start = starts_.find(instruction.operation); start != starts_.end())
        items_.push_back({.reads = {start->second}});
      return;
    }
    if ((instruction.sends.empty() && instruction.receives.empty()) || instruction.is_fence()) return;
    const Node& node = schedule_.graph->nodes()[static_cast<size_t>(instruction.node)];
    SimulatedSpan span =
        Span(instruction, NameOfCollective(*schedule_.graph, node), node.location.ToString());
    Add({.seconds = costs_.machine.op_seconds}, Span(instruction, "start of " + span.op, span.where));
    span.lane = Lane::kLinks;
    span.latency = costs_.link.latency;
    starts_[instruction.operation] = static_cast<int>(items_.size());
    Add(CrossingItem(crossings_.bytes.at(instruction.operation), costs_.link,
                     /*waits=*/instruction.kind == Instruction::Kind::kRemote),
        std::move(span));
  }

  void Compute(const Instruction& instruction, double seconds) {
    if (seconds <= 0) return;
    ProfileRow row{.op = std::string(NameOf(instruction.kind)), .where = instruction.subject};
    if (instruction.node >= 0) row = RowOfNode(*schedule_.graph, instruction.node);
    std::vector<ProfiledNode> nodes;
    for (const KernelStep& step : instruction.steps) nodes.push_back({step.node, step.reduces, 0});
    if (!nodes.empty()) AddNodes(*schedule_.graph, nodes, row);
    Add({.seconds = seconds}, Span(instruction, std::move(row.op), std::move(row.where)));
  }

  void Loop(const Instruction& instruction) {
    StepItem item = NestedItem(instruction.loop->kind, instruction.loop->length);
    const Node& node = schedule_.graph->nodes()[static_cast<size_t>(instruction.node)];
    SimulatedSpan span = Span(instruction, std::string(node.row->name), node.location.ToString());
    span.has_body = true;
    for (const LoopPlan::Body& body : instruction.loop->bodies)
      item.bodies.push_back(
          ScheduleItems(body.schedule, costs_, crossings_.bodies[bodies_++], span.node).items());
    if (item.times > 0) Add(std::move(item), std::move(span));
  }

  const Schedule& schedule_;
  const ProcessCosts& costs_;
  const Crossings& crossings_;
  const int outermost_;
  size_t bodies_ = 0;  // so far
  std::vector<StepItem> items_;
  std::map<int, int> starts_;    // items that start operations, by operation
  std::map<int, size_t> first_;  // by node: the next item when its first instruction comes
};

}  // namespace

absl::StatusOr<Schedule> ScheduleOfProcess(const Program& program, const Machine& machine,
                                           const SimulateOptions& options, int64_t domain) {
  const CpuBackend backend(1);
  ExecutorOptions executor{.overlap = options.overlap, .poison_padding = false, .check_replicas = false};
  std::unique_ptr<PlannedEnd> end;
  if (program.num_domains > 1) {
    MESHWORK_ASSIGN_OR_RETURN(const Placement placement,
                              Placement::Create(program.body.mesh(), program.num_domains));
    end = std::make_unique<PlannedEnd>(domain, program.num_domains,
                                       LinkBetweenDomains(placement, machine.topology));
    executor.transport = end.get();
    executor.distributed = DistributedOf(program.body);
  }
  MESHWORK_ASSIGN_OR_RETURN(StepPlan plan, Executor::PlanStep(program, backend, executor));
  return MakeSchedule(std::move(plan), static_cast<int>(machine.workers), executor.fuse);
}

namespace {

// The crossings of all processes or, if there are many, of kMostProcesses of them. `first`: the schedule of process 0.
absl::StatusOr<Crossings> CrossingsOf(const Program& program, const Machine& machine,
                                      const SimulateOptions& options, const Schedule& first) {
  Crossings crossings;
  AddCrossings(first, crossings);
  const int64_t looked_at = std::min(program.num_domains, kMostProcesses);
  for (int64_t i = 1; i < looked_at; ++i) {
    const int64_t domain = i * program.num_domains / looked_at;
    MESHWORK_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOfProcess(program, machine, options, domain));
    AddCrossings(schedule, crossings);
  }
  return crossings;
}

}  // namespace

absl::StatusOr<Simulation> SimulateProcess(const Program& program, const Machine& machine,
                                           const SimulateOptions& options) {
  MESHWORK_CHECK(machine.workers >= 1);
  MESHWORK_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOfProcess(program, machine, options));
  MESHWORK_ASSIGN_OR_RETURN(const Crossings crossings, CrossingsOf(program, machine, options, schedule));
  std::vector<SimulatedSpan> spans;
  const ProcessCosts costs{LinkBetweenDomains(schedule.domain.placement(), machine.topology), machine, spans};
  const ScheduleItems items(schedule, costs, crossings);
  const StepTimes times = TimeItems(items.items());
  Simulation step = FinishSimulation(*schedule.graph, times, spans, items.Passed(times), machine);
  MESHWORK_RETURN_IF_ERROR(CheckTimes(*schedule.graph, machine, step));
  return step;
}

absl::StatusOr<Simulation> SimulateOn(const Program& program, const Machine& machine,
                                      const SimulateOptions& options) {
  if (machine.workers > 0) return SimulateProcess(program, machine, options);
  Simulation step = Simulate(program.body, machine, options);
  MESHWORK_RETURN_IF_ERROR(CheckTimes(program.body, machine, step));
  return step;
}

}  // namespace meshwork
