#include "meshwork/tools/simulate/process.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/row.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/exec/profile_row.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/plan/local_program.h"
#include "meshwork/runtime/plan/overlap_clock.h"
#include "meshwork/tools/simulate/crossings.h"
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

// Runs a schedule against a clock.
class ScheduleClock {
 public:
  ScheduleClock(const Link& link, const Machine& machine, const Crossings& crossings)
      : link_(link), machine_(&machine), crossings_(&crossings) {}

  void Run(const Schedule& schedule, int depth) {
    const Pieces pieces = CutPieces(schedule);
    std::vector<bool> done(pieces.all.size(), false);
    const Schedule* const around = std::exchange(schedule_, &schedule);
    const int depth_around = std::exchange(depth_, depth);
    int loops = 0;
    for (size_t i = 0; i < schedule.instructions.size(); ++i) {
      const Instruction& instruction = schedule.instructions[i];
      if (depth == 0) Pass(instruction);
      if (instruction.barrier) AddSpan(instruction, "barrier", "", machine_->barrier_seconds);
      if (instruction.is_remote()) Remote(instruction);
      else if (instruction.loop != nullptr) Loop(instruction, loops++);
      else if (const int p = pieces.of[i]; p < 0) Add(instruction, SecondsOf(instruction));
      else if (!done[static_cast<size_t>(p)]) {
        done[static_cast<size_t>(p)] = true;
        const auto measured = machine_->kernels.find(pieces.all[static_cast<size_t>(p)].key);
        Add(instruction, measured != machine_->kernels.end() ? measured->second : SecondsOf(instruction));
      } else if (!machine_->kernels.contains(pieces.all[static_cast<size_t>(p)].key)) {
        Add(instruction, SecondsOf(instruction));
      }
    }
    schedule_ = around;
    depth_ = depth_around;
  }

  // The time at which the first instruction of each node starts. A node without instructions, such as a view, has the
  // time of the node before.
  std::vector<double> Passed(size_t num_nodes) const {
    std::vector<double> passed(num_nodes, 0);
    for (size_t n = 1; n < num_nodes; ++n)
      passed[n] = std::max(passed[n - 1], passed_.contains(n) ? passed_.at(n) : 0);
    return passed;
  }

  Simulation Finish() {
    std::stable_sort(spans_.begin(), spans_.end(), [](const SimulatedSpan& a, const SimulatedSpan& b) {
      return std::pair(a.start, a.depth) < std::pair(b.start, b.depth);
    });
    return {.seconds = clock_.now,
            .compute_seconds = clock_.compute_seconds,
            .link_seconds = clock_.link_seconds,
            .waited_seconds = clock_.waited_seconds,
            .spans = std::move(spans_)};
  }

 private:
  void Pass(const Instruction& instruction) {
    const auto pass = [&](int node) {
      if (node >= 0) passed_.emplace(static_cast<size_t>(node), clock_.now);
    };
    pass(instruction.node);
    for (const KernelStep& step : instruction.steps) {
      pass(step.node);
      pass(step.reduces);
    }
  }

  // The time by the roofline of the process.
  double SecondsOf(const Instruction& instruction) const {
    double flops = 0, bytes = 0, seconds = machine_->op_seconds;
    for (const KernelStep& step : instruction.steps) {
      const Node& node = schedule_->graph->nodes()[static_cast<size_t>(step.node)];
      flops += FlopsOf(*schedule_->graph, node) * static_cast<double>(step.instances) * step.needed_part();
      for (const StepBuffer& buffer : step.buffers)
        if (buffer.rows == StepBuffer::Rows::kAll)
          bytes += static_cast<double>(buffer.bytes) * step.needed_part();
    }
    const double by_bytes = machine_->memory_bandwidth > 0 ? bytes / machine_->memory_bandwidth : 0;
    seconds += std::max(flops / machine_->flops(), by_bytes);
    ProfileRow copied;
    AddTransfers(instruction.transfers, copied);
    if (machine_->copy_bandwidth > 0) seconds += static_cast<double>(copied.bytes) / machine_->copy_bandwidth;
    return seconds;
  }

  void Remote(const Instruction& instruction) {
    if (instruction.kind != Instruction::Kind::kWait) Start(instruction);
    if (instruction.kind == Instruction::Kind::kStart) return;
    const auto arrives = arrives_.find(instruction.operation);
    if (arrives == arrives_.end()) return;
    clock_.WaitUntil(arrives->second);
    arrives_.erase(arrives);
  }

  void Start(const Instruction& instruction) {
    if ((instruction.sends.empty() && instruction.receives.empty()) || instruction.is_fence()) return;
    OperationPath operation = around_;
    operation.push_back(instruction.operation);
    const double bytes = crossings_->BytesOf(operation);
    const Node& node = schedule_->graph->nodes()[static_cast<size_t>(instruction.node)];
    const std::string name = NameOfCollective(*schedule_->graph, node), where = node.location.ToString();
    AddSpan(instruction, "start of " + name, where, machine_->op_seconds);
    const double arrives = clock_.Cross(clock_.now, bytes / link_.bandwidth, link_.latency);
    arrives_[instruction.operation] = arrives;
    const double seconds = bytes / link_.bandwidth;
    spans_.push_back({.node = NodeOf(instruction),
                      .lane = Lane::kLinks,
                      .op = name,
                      .where = where,
                      .start = arrives - link_.latency - seconds,
                      .seconds = seconds,
                      .latency = link_.latency,
                      .times = times_,
                      .depth = depth_});
  }

  int NodeOf(const Instruction& instruction) const { return depth_ > 0 ? loop_ : instruction.node; }

  void AddSpan(const Instruction& instruction, std::string op, std::string where, double seconds) {
    if (seconds <= 0) return;
    spans_.push_back({.node = NodeOf(instruction),
                      .op = std::move(op),
                      .where = std::move(where),
                      .start = clock_.now,
                      .seconds = seconds,
                      .times = times_,
                      .depth = depth_});
    clock_.Compute(seconds);
  }

  void Add(const Instruction& instruction, double seconds) {
    if (seconds <= 0) return;
    ProfileRow row{.op = std::string(NameOf(instruction.kind)), .where = instruction.subject};
    if (instruction.node >= 0) row = RowOfNode(*schedule_->graph, instruction.node);
    std::vector<ProfiledNode> nodes;
    for (const KernelStep& step : instruction.steps) nodes.push_back({step.node, step.reduces, 0});
    if (!nodes.empty()) AddNodes(*schedule_->graph, nodes, row);
    AddSpan(instruction, std::move(row.op), std::move(row.where), seconds);
  }

  // Runs the first two iterations of a loop; all later ones count like the second. Keeps the spans of the first.
  // `loops`: the number of loops before it in the schedule.
  void Loop(const Instruction& instruction, int loops) {
    const LoopPlan& loop = *instruction.loop;
    const int64_t length = loop.kind == NestedStep::Kind::kRepeat ? loop.length : 1;
    if (length < 1) return;
    const double start = clock_.now;
    const size_t first = spans_.size();
    const int loop_around = loop_;
    if (depth_ == 0) loop_ = instruction.node;
    const int64_t times_around = std::exchange(times_, SaturatedProduct(times_, length));
    around_.insert(around_.end(), {loops, 0});
    RunBodies(loop);
    times_ = times_around;
    const size_t last = spans_.size();
    if (length > 1) {
      const OverlapClock before = clock_;
      RunBodies(loop);
      spans_.resize(last);
      clock_.Repeat(before, static_cast<double>(length - 2));
    }
    around_.resize(around_.size() - 2);
    const Node& node = schedule_->graph->nodes()[static_cast<size_t>(instruction.node)];
    spans_.insert(spans_.begin() + static_cast<std::ptrdiff_t>(first),
                  {.node = depth_ == 0 ? instruction.node : loop_,
                   .op = std::string(node.row->name),
                   .where = node.location.ToString(),
                   .start = start,
                   .seconds = clock_.now - start,
                   .times = times_,
                   .depth = depth_,
                   .has_body = true});
    loop_ = loop_around;
  }

  // Runs the bodies of a loop one after the other; of a branch, only the slower one counts. Operations that are under
  // way around the loop are set aside, as the bodies number theirs anew.
  void RunBodies(const LoopPlan& loop) {
    std::map<int, double> arrives = std::exchange(arrives_, {});
    if (loop.kind == NestedStep::Kind::kBranch) {
      ScheduleClock longest = *this;
      for (const LoopPlan::Body& body : loop.bodies) {
        ScheduleClock chosen = *this;
        chosen.Run(body.schedule, depth_ + 1);
        ++around_.back();
        if (chosen.clock_.now > longest.clock_.now) longest = chosen;
      }
      clock_ = longest.clock_;
      spans_ = std::move(longest.spans_);
    } else {
      for (const LoopPlan::Body& body : loop.bodies) {
        Run(body.schedule, depth_ + 1);
        ++around_.back();
      }
    }
    around_.back() = 0;
    arrives_ = std::move(arrives);
  }

  Link link_;
  const Machine* machine_;
  const Crossings* crossings_;
  const Schedule* schedule_ = nullptr;
  OperationPath around_;       // the loops and bodies around the current instruction
  int depth_ = 0, loop_ = -1;  // loop_: the outermost loop's node
  int64_t times_ = 1;
  OverlapClock clock_;
  std::map<int, double> arrives_;    // by operation
  std::map<size_t, double> passed_;  // by node
  std::vector<SimulatedSpan> spans_;
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
  crossings.Add(first);
  const int64_t looked_at = std::min(program.num_domains, kMostProcesses);
  for (int64_t i = 1; i < looked_at; ++i) {
    const int64_t domain = i * program.num_domains / looked_at;
    MESHWORK_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOfProcess(program, machine, options, domain));
    crossings.Add(schedule);
  }
  return crossings;
}

}  // namespace

absl::StatusOr<Simulation> SimulateProcess(const Program& program, const Machine& machine,
                                           const SimulateOptions& options) {
  MESHWORK_CHECK(machine.workers >= 1);
  MESHWORK_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleOfProcess(program, machine, options));
  MESHWORK_ASSIGN_OR_RETURN(const Crossings crossings, CrossingsOf(program, machine, options, schedule));
  ScheduleClock clock(LinkBetweenDomains(schedule.domain.placement(), machine.topology), machine, crossings);
  clock.Run(schedule, 0);
  std::vector<double> passed = clock.Passed(schedule.graph->nodes().size());
  Simulation step = clock.Finish();
  passed.push_back(step.seconds);
  step = FinishSimulation(*schedule.graph, std::move(step), passed, machine);
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
