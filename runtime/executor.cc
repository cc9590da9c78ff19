#include "meshwork/runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/runtime/arrange.h"
#include "meshwork/runtime/binding.h"
#include "meshwork/runtime/local_program.h"
#include "meshwork/runtime/loop.h"
#include "meshwork/runtime/reduce_early.h"

namespace meshwork {
namespace {

// The DTensor that argument `a` of the program is bound to; null if there is none yet.
absl::StatusOr<const DTensor*> FindVariable(const Graph& graph, int a,
                                            const std::map<std::string, DTensor>& variables) {
  const std::string& name = graph.argument_name(a);
  const ValueInfo& info = graph.value(graph.arguments()[a].value);
  const auto it = variables.find(name);
  if (it == variables.end()) return nullptr;
  const DTensor& state = it->second;
  if (state.valid() && state.type() == info.global && state.layout() == *info.layout) return &state;
  return InvalidArgument(
      "Executor: variable \"{}\" is {} {} on {} in the program and {} {} on {} in the state; programs that "
      "share a variable must declare it alike.",
      name, info.global.ToString(), info.layout->ToString(), graph.mesh().ToString(), state.type().ToString(),
      state.layout().ToString(), state.layout().mesh().ToString());
}

ScheduleOptions OptionsOf(const ExecutorOptions& options) {
  return {.share = options.share,
          .coalesce = options.coalesce,
          .fuse = options.fuse,
          .check_replicas = options.check_replicas};
}

Graph OrderOf(const Graph& local, const ScheduleOptions& options) {
  return WithRegions(LowerLoops(local), [&](const Graph& program) {
    if (!options.coalesces() && !options.fuse) return program;
    return options.coalesces() ? ReduceEarly(Arrange(program)) : Arrange(program);
  });
}

}  // namespace

Executor::Executor(const Program& program, WorkerPool& pool, const ExecutorOptions& options)
    : graph_(OrderOf(program.body, OptionsOf(options))),
      pool_(pool),
      options_(options),
      communicator_(MakeThreadCommunicator()) {}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program& program, WorkerPool& pool,
                                                           const ExecutorOptions& options,
                                                           std::map<std::string, DTensor>* variables) {
  MESHWORK_CHECK(variables != nullptr);
  RETURN_IF_ERROR(CheckLocalProgram(program.body));
  std::unique_ptr<Executor> executor(new Executor(program, pool, options));
  RETURN_IF_ERROR(executor->Prepare(*variables));
  return executor;
}

absl::StatusOr<ExecutorMemory> Executor::PlanMemory(const Program& program, int workers,
                                                    const ExecutorOptions& options) {
  RETURN_IF_ERROR(CheckLocalProgram(program.body));
  ASSIGN_OR_RETURN(const Plan plan,
                   MakePlan(OrderOf(program.body, OptionsOf(options)), workers, options, {}));
  return plan.memory;
}

absl::StatusOr<Executor::Plan> Executor::MakePlan(const Graph& graph, int workers,
                                                  const ExecutorOptions& options,
                                                  const std::map<std::string, DTensor>& variables) {
  Plan plan;
  std::vector<InstanceMap> instances(graph.arguments().size());
  for (size_t a = 0; a < instances.size(); ++a) {
    if (!graph.arguments()[a].is_variable) continue;
    const ValueInfo& info = graph.value(graph.arguments()[a].value);
    ASSIGN_OR_RETURN(const DTensor* const bound, FindVariable(graph, static_cast<int>(a), variables));
    instances[a] = bound != nullptr ? bound->instances() : InstancesOf(*info.layout, options.share);
    plan.memory.variable_bytes +=
        bound != nullptr ? bound->bytes() : BytesOfDTensor(info.global, *info.layout, options.share);
  }
  ASSIGN_OR_RETURN(plan.schedule, MakeSchedule(graph, instances, workers, OptionsOf(options)));
  for (int64_t bytes : plan.schedule.private_bytes) plan.memory.private_bytes += bytes;
  plan.memory.shared_bytes = plan.schedule.shared_bytes;
  plan.memory.constant_bytes = plan.schedule.constant_bytes;
  plan.memory.num_barriers = plan.schedule.num_barriers;
  plan.memory.num_instructions = static_cast<int>(plan.schedule.instructions.size());
  return plan;
}

namespace {

// The status of a kernel that threw. REQUIRES: called in a catch clause.
absl::Status KernelFailed(std::string_view where) {
  return CaughtStatus(
      fmt::format("Run: {}", where),
      "there is not enough memory for what its kernel, or a library that it calls, works with");
}

}  // namespace

absl::Status Executor::Prepare(std::map<std::string, DTensor>& variables) {
  ASSIGN_OR_RETURN(Plan plan, MakePlan(graph_, pool_.num_workers(), options_, variables));
  schedule_ = std::move(plan.schedule);
  memory_ = plan.memory;
  variables_.resize(graph_.arguments().size());
  paddings_.resize(graph_.arguments().size());
  for (size_t a = 0; a < variables_.size(); ++a) {
    if (!graph_.arguments()[a].is_variable) continue;
    const ValueInfo& info = graph_.value(graph_.arguments()[a].value);
    const auto bound = variables.find(info.name);
    variables_[a] =
        bound != variables.end() ? bound->second : DTensor(info.global, *info.layout, options_.share);
    paddings_[a] = Padding(variables_[a]);
  }
  root_.graph = &graph_;
  root_.schedule = &schedule_;
  root_.addresses.resize(schedule_.buffers.size(), nullptr);
  feed_buffers_.resize(graph_.arguments().size());
  output_buffers_.resize(graph_.outputs().size());
  for (size_t b = 0; b < schedule_.buffers.size(); ++b) {
    const Place& place = schedule_.storages[schedule_.buffers[b].storage].place;
    if (place.kind == Place::Kind::kFeed) feed_buffers_[place.index].push_back(static_cast<BufferId>(b));
    if (place.kind == Place::Kind::kOutput) output_buffers_[place.index] = static_cast<BufferId>(b);
  }
  AllocateArenas();
  workers_.resize(schedule_.num_workers);
  MakeRoom(schedule_);
  RETURN_IF_ERROR(PrepareLevel(root_));
  absl::Status once;
  pool_.Run([this, &once](int worker) {  // where libraries have one thread
    if (worker > 0) return;
    try {
      RunOnce(root_);
    } catch (...) {
      once = KernelFailed("what is computed once");
    }
  });
  RETURN_IF_ERROR(once);
  if (options_.profile || options_.trace_steps > 0)
    profiler_ = std::make_unique<Profiler>(graph_, schedule_, options_.trace_steps);
  for (size_t a = 0; a < variables_.size(); ++a)
    if (variables_[a].valid()) variables.emplace(graph_.argument_name(static_cast<int>(a)), variables_[a]);
  return absl::OkStatus();
}

void Executor::MakeRoom(const Schedule& schedule) {
  for (const auto* instructions : {&schedule.once, &schedule.instructions}) {
    for (const Instruction& instruction : *instructions) {
      if (instruction.loop != nullptr)
        for (const LoopPlan::Body& body : instruction.loop->bodies) MakeRoom(body.schedule);
      for (const KernelStep& step : instruction.steps) {
        const size_t num_in = static_cast<size_t>(step.num_in), num_out = step.buffers.size() - num_in;
        for (WorkerState& worker : workers_) {
          worker.in.resize(std::max(worker.in.size(), num_in));
          worker.out.resize(std::max(worker.out.size(), num_out));
        }
      }
    }
  }
}

void Executor::AllocateArenas() {
  for (int64_t bytes : schedule_.private_bytes) arenas_.push_back(AllocateAligned(bytes));
  arenas_.push_back(AllocateAligned(schedule_.shared_bytes));
  arenas_.push_back(AllocateAligned(schedule_.constant_bytes));
  // Pages go to the memory of the core that touches them first.
  pool_.Run([this](int w) {
    std::memset(arenas_[w].get(), 0, static_cast<size_t>(schedule_.private_bytes[w]));
    if (w > 0) return;
    std::memset(arenas_[schedule_.num_workers].get(), 0, static_cast<size_t>(schedule_.shared_bytes));
    std::memset(arenas_.back().get(), 0, static_cast<size_t>(schedule_.constant_bytes));
  });
  for (size_t b = 0; b < root_.addresses.size(); ++b) {
    const Buffer& buffer = schedule_.buffers[b];
    const Place& place = schedule_.storages[buffer.storage].place;
    std::byte* base = nullptr;
    if (place.kind == Place::Kind::kPrivate) base = static_cast<std::byte*>(arenas_[place.index].get());
    if (place.kind == Place::Kind::kShared)
      base = static_cast<std::byte*>(arenas_[schedule_.num_workers].get());
    if (place.kind == Place::Kind::kConstant) base = static_cast<std::byte*>(arenas_.back().get());
    if (place.kind == Place::Kind::kVariable) base = variables_[place.index].instance(0);
    if (base != nullptr) root_.addresses[b] = base + place.offset + buffer.offset;
  }
}

// The collectives of a level, and the levels of its loops' bodies.
absl::Status Executor::PrepareLevel(Level& level) {
  const Schedule& schedule = *level.schedule;
  level.collectives.resize(schedule.instructions.size());
  level.bodies.resize(schedule.instructions.size());
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    if (instruction.kind == Instruction::Kind::kCollective) {
      CollectivePlan plan{level.graph->Describe(instruction.node), instruction.transfers, instruction.slices};
      ASSIGN_OR_RETURN(level.collectives[i], communicator_->Prepare(std::move(plan), level.addresses));
    }
    if (instruction.loop == nullptr) continue;
    for (const LoopPlan::Body& body : instruction.loop->bodies) {
      auto inner = std::make_unique<Level>();
      inner->graph = body.graph.get();
      inner->schedule = &body.schedule;
      inner->body = &body;
      inner->addresses.resize(body.schedule.buffers.size(), nullptr);
      PlaceBody(*inner, level);
      RETURN_IF_ERROR(PrepareLevel(*inner));
      for (const auto& bodies : inner->bodies)
        for (const std::unique_ptr<Level>& nested : bodies) inner->follows_feeds |= nested->follows_feeds;
      level.bodies[i].push_back(std::move(inner));
    }
  }
  return absl::OkStatus();
}

// Arguments lie where the program around the body says, all else in its arenas.
void Executor::PlaceBody(Level& body, const Level& around) {
  for (size_t b = 0; b < body.addresses.size(); ++b) {
    const Buffer& buffer = body.schedule->buffers[b];
    const Place& place = body.schedule->storages[buffer.storage].place;
    BufferId lies = -1;
    switch (place.kind) {
      case Place::Kind::kPrivate: lies = body.body->private_arenas[place.index]; break;
      case Place::Kind::kShared: lies = body.body->shared_arena; break;
      case Place::Kind::kConstant: lies = body.body->constants; break;
      case Place::Kind::kVariable: lies = body.body->arguments[place.index]; break;
      case Place::Kind::kUnplaced:
      case Place::Kind::kFeed:
      case Place::Kind::kOutput: break;
    }
    if (lies < 0) continue;  // nothing touches it
    // A feed lies elsewhere at each step, and nowhere yet.
    std::byte* const base = around.addresses[lies];
    if (base == nullptr) body.follows_feeds = true;
    else body.addresses[b] = base + place.offset + buffer.offset;
  }
}

// Values that lie in feeds, for the bodies of loops.
void Executor::FollowFeeds(Level& level) {
  for (auto& bodies : level.bodies) {
    for (const std::unique_ptr<Level>& body : bodies) {
      if (!body->follows_feeds) continue;
      for (size_t b = 0; b < body->addresses.size(); ++b) {
        const Buffer& buffer = body->schedule->buffers[b];
        const Place& place = body->schedule->storages[buffer.storage].place;
        if (place.kind != Place::Kind::kVariable) continue;
        std::byte* const base = level.addresses[body->body->arguments[place.index]];
        body->addresses[b] = base + place.offset + buffer.offset;
      }
      FollowFeeds(*body);
    }
  }
}

// What depends on nothing.
void Executor::RunOnce(const Level& level) {
  for (const Instruction& instruction : level.schedule->once)
    for (const KernelStep& step : instruction.steps)
      if (instruction.rows > 0) RunStep(level, instruction, step, 0, instruction.rows, 0, 0);
  for (const auto& bodies : level.bodies)
    for (const std::unique_ptr<Level>& body : bodies) RunOnce(*body);
}

absl::StatusOr<BoundStep> Executor::Bind(std::map<std::string, Tensor> feeds,
                                         std::map<std::string, Tensor> outputs) {
  RETURN_IF_ERROR(CheckFeeds(graph_, feeds));
  RETURN_IF_ERROR(CheckOutputs(graph_, feeds, outputs));
  BoundStep bound(*this);
  bound.feeds_ = std::move(feeds);
  bound.outputs_ = std::move(outputs);
  bound.feed_addresses_.resize(graph_.arguments().size(), nullptr);
  bound.output_addresses_.resize(graph_.outputs().size(), nullptr);
  for (size_t a = 0; a < bound.feed_addresses_.size(); ++a) {
    if (graph_.arguments()[a].is_variable) continue;
    Tensor& feed = bound.feeds_.at(graph_.argument_name(static_cast<int>(a)));
    bound.feed_addresses_[a] = static_cast<std::byte*>(feed.raw());
  }
  for (size_t o = 0; o < bound.output_addresses_.size(); ++o) {
    const auto output = bound.outputs_.find(OutputName(graph_, static_cast<int>(o)));
    if (output == bound.outputs_.end()) continue;
    bound.output_addresses_[o] = static_cast<std::byte*>(output->second.raw());
  }
  return bound;
}

std::map<std::string, Tensor> Executor::NewOutputs() const {
  std::map<std::string, Tensor> outputs;
  for (size_t o = 0; o < graph_.outputs().size(); ++o)
    outputs[OutputName(graph_, static_cast<int>(o))] = Tensor(graph_.value(graph_.outputs()[o].value).global);
  return outputs;
}

absl::Status Executor::Run(const std::map<std::string, Tensor>& feeds,
                           std::map<std::string, Tensor>* outputs) {
  std::map<std::string, Tensor> results;
  if (outputs != nullptr) results = NewOutputs();
  ASSIGN_OR_RETURN(BoundStep bound, Bind(feeds, results));
  RETURN_IF_ERROR(bound.Run());
  if (outputs != nullptr) *outputs = std::move(results);
  return absl::OkStatus();
}

absl::Status BoundStep::Run() { return executor_->RunBound(*this); }

absl::Status Executor::RunBound(const BoundStep& bound) {
  // Feeds are read, never written: no instruction has one of these buffers as its target.
  for (size_t a = 0; a < feed_buffers_.size(); ++a)
    for (BufferId b : feed_buffers_[a])
      root_.addresses[b] = bound.feed_addresses_[a] + schedule_.buffers[b].offset;
  for (size_t o = 0; o < output_buffers_.size(); ++o)
    root_.addresses[output_buffers_[o]] = bound.output_addresses_[o];
  FollowFeeds(root_);
  if (options_.poison_padding) Poison();
  for (WorkerState& worker : workers_) {
    worker.status = absl::OkStatus();
    worker.instruction = worker.item = -1;
  }
  const Profiler::Clock::time_point start =
      profiler_ == nullptr ? Profiler::Clock::time_point() : Profiler::Clock::now();
  pool_.Run([this](int worker) { RunWorker(worker); });
  if (profiler_ != nullptr) profiler_->EndStep(start);
  return StepStatus();
}

void Executor::Poison() {
  constexpr int kNan = 0xFF;
  for (int w = 0; w < schedule_.num_workers; ++w)
    std::memset(arenas_[w].get(), kNan, static_cast<size_t>(schedule_.private_bytes[w]));
  std::memset(arenas_[schedule_.num_workers].get(), kNan, static_cast<size_t>(schedule_.shared_bytes));
  for (size_t a = 0; a < variables_.size(); ++a) paddings_[a].Poison(variables_[a]);
}

void Executor::RunWorker(int worker) {
  Profiler::Lane* const lane = profiler_ == nullptr ? nullptr : &profiler_->lane(worker);
  if (lane != nullptr) lane->Start();
  for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
    if (schedule_.instructions[i].barrier) {
      pool_.barrier().Wait();
      if (lane != nullptr) lane->Waited(i);
    }
    const bool ran = RunInstruction(root_, i, worker);
    if (lane != nullptr && ran) lane->Ran(i);
  }
}

bool Executor::RunInstruction(const Level& level, size_t i, int worker) {
  const Instruction& instruction = level.schedule->instructions[i];
  switch (instruction.kind) {
    case Instruction::Kind::kKernel: RunKernelsOrFail(level, i, worker); break;
    case Instruction::Kind::kCollective: RunCollective(level, i, worker); break;
    case Instruction::Kind::kCompare: Compare(i, worker); break;
    case Instruction::Kind::kLoop: RunLoop(level, i, worker); break;
    case Instruction::Kind::kUnpack:
      if (!instruction.transfers.empty() && level.addresses[instruction.transfers[0].to] == nullptr)
        return false;
      [[fallthrough]];
    case Instruction::Kind::kPack:
    case Instruction::Kind::kAssign:
      RunTransfers(instruction.transfers, instruction.slices[worker], level.addresses);
      break;
  }
  return true;
}

// Kernels throw where a library that they call has no memory. All workers go on to the end, for they meet at
// barriers.
void Executor::RunKernelsOrFail(const Level& level, size_t i, int worker) {
  try {
    RunKernels(level, i, worker);
  } catch (...) {
    if (workers_[worker].status.ok())
      workers_[worker].status = KernelFailed(level.graph->Describe(level.schedule->instructions[i].node));
  }
}

bool Executor::AnyFailed() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const WorkerState& state) { return !state.status.ok(); });
}

void Executor::RunCollective(const Level& level, size_t i, int worker) {
  level.collectives[i]->Start(worker);
  absl::Status status = level.collectives[i]->Wait(worker);
  if (status.ok()) return;
  // The others get the same reason; all go on to the end, for they meet at barriers.
  communicator_->Abort(status);
  if (workers_[worker].status.ok()) workers_[worker].status = std::move(status);
}

void Executor::RunBody(const Level& body, int worker) {
  for (size_t i = 0; i < body.schedule->instructions.size(); ++i) {
    if (body.schedule->instructions[i].barrier) pool_.barrier().Wait();
    RunInstruction(body, i, worker);
  }
}

// All workers read the same predicate, written before they last met, and go the same way.
void Executor::RunLoop(const Level& level, size_t i, int worker) {
  const LoopPlan& plan = *level.schedule->instructions[i].loop;
  const auto& bodies = level.bodies[i];
  const auto is_true = [&] { return *reinterpret_cast<const bool*>(level.addresses[plan.predicate]); };
  switch (plan.kind) {
    case LoopPlan::Kind::kRepeat:
      for (int64_t t = 0; t < plan.length; ++t) {
        if (t > 0) pool_.barrier().Wait();
        RunBody(*bodies[0], worker);
      }
      return;
    case LoopPlan::Kind::kWhile:
      for (;;) {
        RunBody(*bodies[0], worker);
        pool_.barrier().Wait();
        // A predicate of values that a kernel did not write may stay true for ever. All workers leave at the
        // same time, for they meet at barriers.
        if (worker == 0) leaves_ = AnyFailed();
        pool_.barrier().Wait();
        if (leaves_ || !is_true()) return;
        RunBody(*bodies[1], worker);
        pool_.barrier().Wait();
      }
    case LoopPlan::Kind::kBranch: RunBody(*bodies[is_true() ? 0 : 1], worker); return;
  }
}

void Executor::Compare(size_t i, int worker) {
  WorkerState& state = workers_[worker];
  const Instruction& instruction = schedule_.instructions[i];
  for (const WorkSlice& slice : instruction.slices[worker]) {
    if (state.instruction >= 0) return;
    const Transfer& transfer = instruction.transfers[slice.item];
    const std::optional<Difference> difference =
        FindDifference(transfer.box, slice.begin, slice.end, DTypeSize(transfer.dtype),
                       root_.addresses[transfer.from[0]], root_.addresses[transfer.from[1]]);
    if (!difference.has_value()) continue;
    state.instruction = static_cast<int>(i);
    state.item = slice.item;
    state.difference = *difference;
  }
}

// The error of the step that has run: the communicator's, or the first difference in program order.
absl::Status Executor::StepStatus() const {
  const WorkerState* first = nullptr;
  const auto place = [](const WorkerState& w) {
    return std::tuple(w.instruction, w.item, w.difference.offset);
  };
  for (const WorkerState& worker : workers_) {
    RETURN_IF_ERROR(worker.status);
    if (worker.instruction >= 0 && (first == nullptr || place(worker) < place(*first))) first = &worker;
  }
  if (first == nullptr) return absl::OkStatus();
  const Instruction& instruction = schedule_.instructions[first->instruction];
  const ValueInfo& info = graph_.value(instruction.value);
  const auto [a, b] = instruction.replicas[first->item];
  return DifferenceError("Run: " + instruction.subject, info.global, *info.layout, a, b, first->difference);
}

meshwork::Profile Executor::Profile() const {
  return profiler_ == nullptr ? meshwork::Profile() : profiler_->Read();
}

meshwork::Trace Executor::Trace() const {
  return profiler_ == nullptr ? meshwork::Trace() : profiler_->ReadTrace();
}

void Executor::ClearProfile() {
  if (profiler_ != nullptr) profiler_->Clear();
}

void Executor::RunKernels(const Level& level, size_t i, int worker) {
  const Instruction& instruction = level.schedule->instructions[i];
  const std::vector<WorkSlice>& slices = instruction.slices[worker];
  for (size_t s = 0; s < slices.size(); ++s) {
    const auto [item, begin, end] = slices[s];
    size_t first = 0;
    if (instruction.tile > 0 && instruction.steps[0].is_sliced())
      RunStep(level, instruction, instruction.steps[first++], begin, end, begin, worker);
    const int64_t tile = instruction.tile > 0 ? instruction.tile : end - begin;
    for (int64_t row = begin; row < end; row += tile)
      for (size_t k = first; k < instruction.steps.size(); ++k)
        RunStep(level, instruction, instruction.steps[k], row, std::min(row + tile, end), begin, worker);
    if (profiler_ != nullptr && &level == &root_) profiler_->lane(worker).RanSlice(i, s);
  }
}

// The rows [begin, end) of a strip. A buffer that holds only the rows of a tile or a strip is given to the
// kernel as if the rows before lay in front of it, so that a kernel finds row r at r rows from the start
// either way (as Halide's buffers do). Those rows are never touched.
void Executor::RunStep(const Level& level, const Instruction& instruction, const KernelStep& step,
                       int64_t begin, int64_t end, int64_t strip, int worker) {
  WorkerState& call = workers_[worker];
  const auto address = [&](const StepBuffer& at) {
    if (at.rows == StepBuffer::Rows::kAll) return level.addresses[at.buffer];
    const int64_t before =
        (at.rows == StepBuffer::Rows::kTile ? begin : strip) * (at.bytes / instruction.rows);
    const auto start = reinterpret_cast<uintptr_t>(level.addresses[at.buffer + worker]);
    return reinterpret_cast<std::byte*>(start - static_cast<uintptr_t>(before));
  };
  const size_t num_in = static_cast<size_t>(step.num_in), num_out = step.buffers.size() - num_in;
  for (size_t k = 0; k < num_in; ++k) call.in[k] = address(step.buffers[k]);
  for (size_t k = 0; k < num_out; ++k) call.out[k] = address(step.buffers[num_in + k]);
  const std::span<const Block> blocks = step.blocks;
  const int64_t units = step.kernel.units / instruction.rows;
  step.kernel.run({.in = {call.in.data(), num_in},
                   .out = {call.out.data(), num_out},
                   .in_blocks = blocks.first(num_in),
                   .out_blocks = blocks.subspan(num_in),
                   .begin = begin * units,
                   .end = end * units});
}

}  // namespace meshwork
