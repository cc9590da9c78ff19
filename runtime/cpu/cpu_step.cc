#include "meshwork/runtime/cpu/cpu_step.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/run_transfers.h"
#include "meshwork/runtime/plan/cross_device.h"

namespace meshwork {
namespace {

// The status of a kernel that threw. REQUIRES: called in a catch clause.
absl::Status KernelFailed(std::string_view where) {
  return CaughtStatus(
      fmt::format("Run: {}", where),
      "there is not enough memory for what its kernel, or a library that it calls, works with");
}

// All workers of a step, for a kernel that they run together.
class WorkersTeam : public Team {
 public:
  // `first`: where member 0 leaves a pointer for all.
  WorkersTeam(int worker, int workers, Barrier& barrier, void** first)
      : worker_(worker), workers_(workers), barrier_(barrier), first_(first) {}

  int size() const override { return workers_; }
  int member() const override { return worker_; }
  void Meet() override { barrier_.Wait(); }
  void* FromFirst(void* pointer) override {
    if (worker_ == 0) *first_ = pointer;
    Meet();
    void* const first = *first_;
    Meet();  // now it may be written again
    return first;
  }

 private:
  const int worker_, workers_;
  Barrier& barrier_;
  void** const first_;
};

// The node, or the fence, that an operation across domains is for; in errors.
std::string WhereOf(const Schedule& schedule, const Instruction& remote) {
  return remote.is_fence() ? "the start of a step" : schedule.graph->Describe(remote.node);
}

}  // namespace

ExecutorMemory MemoryOf(const Schedule& schedule) {
  ExecutorMemory memory{.shared_bytes = schedule.shared_bytes,
                        .constant_bytes = schedule.constant_bytes,
                        .num_barriers = schedule.num_barriers,
                        .num_instructions = static_cast<int>(schedule.instructions.size())};
  for (int64_t bytes : schedule.private_bytes) memory.private_bytes += bytes;
  return memory;
}

absl::StatusOr<std::unique_ptr<PreparedStep>> CpuStep::Create(StepPlan plan, std::vector<DTensor> variables,
                                                              WorkerPool& pool,
                                                              std::shared_ptr<const void> kept,
                                                              const PrepareOptions& options) {
  Schedule schedule = MakeSchedule(std::move(plan), pool.num_workers(), options.fuse);
  std::unique_ptr<CpuStep> step(new CpuStep(std::move(schedule), std::move(variables), pool, options));
  step->kept_ = std::move(kept);
  MESHWORK_RETURN_IF_ERROR(step->PrepareRemotes(step->root_));
  MESHWORK_RETURN_IF_ERROR(step->RunOnce());
  if (options.profile || options.trace_steps > 0)
    step->profiler_ = std::make_unique<Profiler>(step->schedule_, options.trace_steps);
  return step;
}

CpuStep::CpuStep(Schedule schedule, std::vector<DTensor> variables, WorkerPool& pool,
                 const PrepareOptions& options)
    : pool_(pool),
      options_(options),
      schedule_(std::move(schedule)),
      variables_(std::move(variables)),
      root_(schedule_),
      workers_(schedule_.num_workers) {
  for (const DTensor& variable : variables_)
    paddings_.push_back(variable.valid() ? Padding(variable) : Padding());
  FindHostBuffers();
  AllocateArenas();
  MakeRoom(schedule_);
  root_.AddBodies();
}

void CpuStep::FindHostBuffers() {
  feed_buffers_.resize(schedule_.graph->arguments().size());
  output_buffers_.resize(schedule_.graph->outputs().size());
  variable_buffers_.resize(feed_buffers_.size());
  spare_buffers_.resize(feed_buffers_.size());
  lay_.resize(feed_buffers_.size(), nullptr);
  for (size_t b = 0; b < schedule_.buffers.size(); ++b) {
    const Place& place = schedule_.storages[schedule_.buffers[b].storage].place;
    const bool is_replaced = place.kind == Place::Kind::kVariable && !variables_[place.index].valid();
    if (place.kind == Place::Kind::kFeed || is_replaced)
      feed_buffers_[place.index].push_back(static_cast<BufferId>(b));
    if (place.kind == Place::Kind::kOutput) output_buffers_[place.index].push_back(static_cast<BufferId>(b));
    if (place.kind == Place::Kind::kVariable && !is_replaced)
      variable_buffers_[place.index].push_back(static_cast<BufferId>(b));
    if (place.kind == Place::Kind::kSpare) spare_buffers_[place.index].push_back(static_cast<BufferId>(b));
    has_spares_ |= place.kind == Place::Kind::kSpare;
  }
  for (size_t a = 0; a < lay_.size(); ++a)
    if (variables_[a].valid()) lay_[a] = variables_[a].instance(0);
  for (const Instruction& instruction : schedule_.instructions) has_fence_ |= instruction.is_fence();
}

void CpuStep::AllocateArenas() {
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
    if (place.kind == Place::Kind::kVariable && variables_[place.index].valid())
      base = variables_[place.index].instance(0);
    if (base != nullptr) root_.addresses[b] = base + place.offset + buffer.offset;
  }
}

void CpuStep::MakeRoom(const Schedule& schedule) {
  for (const auto* instructions : {&schedule.once, &schedule.instructions}) {
    for (const Instruction& instruction : *instructions) {
      if (instruction.loop != nullptr)
        for (const LoopPlan::Body& body : instruction.loop->bodies) MakeRoom(body.schedule);
      workers_[0].sends.resize(std::max(workers_[0].sends.size(), instruction.sends.size()));
      workers_[0].receives.resize(std::max(workers_[0].receives.size(), instruction.receives.size()));
      for (const CrossDeviceCall& call : instruction.calls)
        for (WorkerState& worker : workers_) worker.calls.MakeFor(call);
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

// Prepares operations in the order of the program, which all domains have in common.
absl::Status CpuStep::PrepareRemotes(Level& level) {
  level.remotes.resize(static_cast<size_t>(level.schedule->num_operations));
  for (size_t i = 0; i < level.schedule->instructions.size(); ++i) {
    const Instruction& instruction = level.schedule->instructions[i];
    if (instruction.is_remote() && instruction.kind != Instruction::Kind::kWait) {
      RemoteSpec spec{.where = WhereOf(*level.schedule, instruction)};
      const auto part_of = [&](const RemoteStep::Part& part) {
        return RemotePart{part.domain, level.schedule->buffers[part.buffer].bytes};
      };
      for (const RemoteStep::Part& part : instruction.sends) spec.sends.push_back(part_of(part));
      for (const RemoteStep::Part& part : instruction.receives) spec.receives.push_back(part_of(part));
      MESHWORK_ASSIGN_OR_RETURN(level.remotes[static_cast<size_t>(instruction.operation)],
                                options_.transport->Prepare(std::move(spec)));
    }
    for (const std::unique_ptr<Level>& body : level.bodies[i])
      MESHWORK_RETURN_IF_ERROR(PrepareRemotes(*body));
  }
  return absl::OkStatus();
}

absl::Status CpuStep::RunOnce() {
  absl::Status once;
  pool_.Run([this, &once](int worker) {  // where libraries have one thread
    if (worker > 0) return;
    try {
      RunOnce(root_);
    } catch (...) {
      once = KernelFailed("what is computed once");
    }
  });
  return once;
}

// Computes the nodes that depend on no argument.
void CpuStep::RunOnce(const Level& level) {
  for (const Instruction& instruction : level.schedule->once)
    for (const KernelStep& step : instruction.steps)
      if (instruction.rows > 0) RunStep(level, instruction, step, 0, instruction.rows, 0, 0);
  for (const auto& bodies : level.bodies)
    for (const std::unique_ptr<Level>& body : bodies) RunOnce(*body);
}

// Host tensors are read where they are, so nothing is staged.
absl::Status CpuStep::Run(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                          std::span<const std::byte* const> /*staged*/) {
  if (options_.transport != nullptr) MESHWORK_RETURN_IF_ERROR(made_.Check("Run"));
  // No instruction has a feed as its target, unless an output replaces it.
  for (size_t a = 0; a < feed_buffers_.size(); ++a)
    for (BufferId b : feed_buffers_[a])
      root_.addresses[b] = const_cast<std::byte*>(feeds[a]) + schedule_.buffers[b].offset;
  for (size_t o = 0; o < output_buffers_.size(); ++o)
    for (BufferId b : output_buffers_[o])
      root_.addresses[b] = outputs[o] == nullptr ? nullptr : outputs[o] + schedule_.buffers[b].offset;
  FollowVariables();
  wrote_spares_ = has_spares_ && !has_fence_;
  if (options_.poison_padding) Poison();
  has_failed_.store(false, std::memory_order_relaxed);
  for (WorkerState& worker : workers_) {
    worker.status = absl::OkStatus();
    worker.instruction = worker.item = -1;
  }
  const Profiler::Clock::time_point start =
      profiler_ == nullptr ? Profiler::Clock::time_point() : Profiler::Clock::now();
  pool_.Run([this](int worker) { RunWorker(worker); });
  if (profiler_ != nullptr) profiler_->EndStep(start);
  absl::Status status = StepStatus();
  if (!status.ok() && options_.transport != nullptr) {
    options_.transport->Abort(status);
    LeaveRemotes(root_);
  }
  return status;
}

// Variables and their spares change places after each step that has them (DTensor::SwapSpare).
void CpuStep::FollowVariables() {
  bool moved = false;
  for (size_t a = 0; a < variables_.size(); ++a) {
    DTensor& variable = variables_[a];
    if (!variable.has_spare()) continue;
    for (BufferId b : spare_buffers_[a]) root_.addresses[b] = variable.spare(0) + schedule_.buffers[b].offset;
    if (variable.instance(0) == lay_[a]) continue;
    for (BufferId b : variable_buffers_[a])
      root_.addresses[b] = variable.instance(0) + schedule_.buffers[b].offset;
    lay_[a] = variable.instance(0);
    moved = true;
  }
  root_.FollowBindings(/*all=*/moved);
}

// Waits for the operations that a failed step has started and not waited for, so that they use no memory any more.
void CpuStep::LeaveRemotes(const Level& level) {
  for (const std::unique_ptr<RemoteOp>& remote : level.remotes) remote->Wait().IgnoreError();
  for (const auto& bodies : level.bodies)
    for (const std::unique_ptr<Level>& body : bodies) LeaveRemotes(*body);
}

void CpuStep::Poison() {
  constexpr int kNan = 0xFF;
  for (int w = 0; w < schedule_.num_workers; ++w)
    std::memset(arenas_[w].get(), kNan, static_cast<size_t>(schedule_.private_bytes[w]));
  std::memset(arenas_[schedule_.num_workers].get(), kNan, static_cast<size_t>(schedule_.shared_bytes));
  for (size_t a = 0; a < variables_.size(); ++a) paddings_[a].Poison(variables_[a]);
  if (wrote_spares_) PoisonSpares();
  for (const std::vector<BufferId>& buffers : output_buffers_)
    for (BufferId b : buffers)
      if (root_.addresses[b] != nullptr)
        std::memset(root_.addresses[b], kNan, static_cast<size_t>(schedule_.buffers[b].bytes));
}

void CpuStep::PoisonSpares() {
  constexpr int kNan = 0xFF;
  for (size_t a = 0; a < variables_.size(); ++a)
    if (!spare_buffers_[a].empty())
      std::memset(variables_[a].spare(0), kNan, static_cast<size_t>(variables_[a].bytes()));
}

void CpuStep::RunWorker(int worker) {
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

bool CpuStep::RunInstruction(const Level& level, size_t i, int worker) {
  const Instruction& instruction = level.schedule->instructions[i];
  switch (instruction.kind) {
    case Instruction::Kind::kKernel:
      instruction.is_by_team() ? RunTeam(level, i, worker) : RunKernelsOrFail(level, i, worker);
      break;
    case Instruction::Kind::kCompare: Compare(i, worker); break;
    case Instruction::Kind::kLoop: RunLoop(level, i, worker); break;
    case Instruction::Kind::kRemote:
    case Instruction::Kind::kStart:
    case Instruction::Kind::kWait: RunRemote(level, i, worker); break;
    case Instruction::Kind::kUnpack:
      if (!instruction.transfers.empty() && level.addresses[instruction.transfers[0].to] == nullptr)
        return false;
      [[fallthrough]];
    case Instruction::Kind::kCollective:
      if (!instruction.calls.empty()) {
        RunCalls(level, i, worker);
        break;
      }
      [[fallthrough]];
    case Instruction::Kind::kPack:
    case Instruction::Kind::kSend:
    case Instruction::Kind::kReceive:
    case Instruction::Kind::kAssign:
      if (!IsOver()) RunTransfers(instruction.transfers, instruction.slices[worker], level.addresses);
      break;
  }
  return true;
}

void CpuStep::RunCalls(const Level& level, size_t i, int worker) {
  if (IsOver()) return;
  const Instruction& instruction = level.schedule->instructions[i];
  const absl::Status status =
      meshwork::RunCalls(*options_.cross_device_ops, instruction, worker, level.addresses,
                         /*marks=*/options_.check_replicas, workers_[worker].calls);
  if (!status.ok())
    Fail(worker,
         Annotate(status, fmt::format("Run: {}: ", level.schedule->graph->Describe(instruction.node))));
}

// Kernels throw where a library that they call has no memory. All workers go on to the end, for they meet at
// barriers.
void CpuStep::RunKernelsOrFail(const Level& level, size_t i, int worker) {
  if (IsOver()) return;
  try {
    RunKernels(level, i, worker);
  } catch (...) {
    Fail(worker, KernelFailed(level.schedule->graph->Describe(level.schedule->instructions[i].node)));
  }
}

// All workers run the kernel, or none does, as worker 0 decides: if some had seen a failure and others had not, the
// others would wait for ever.
void CpuStep::RunTeam(const Level& level, size_t i, int worker) {
  if (worker == 0) skips_team_ = IsOver();
  pool_.barrier().Wait();
  const bool skips = skips_team_;
  WorkersTeam team(worker, schedule_.num_workers, pool_.barrier(), &from_first_);
  const Instruction& instruction = level.schedule->instructions[i];
  try {
    if (!skips) RunStep(level, instruction, instruction.steps[0], 0, instruction.rows, 0, worker, &team);
  } catch (...) {
    Fail(worker, KernelFailed(level.schedule->graph->Describe(instruction.node)));
  }
  pool_.barrier().Wait();
  if (profiler_ != nullptr && &level == &root_) profiler_->lane(worker).RanSlice(i, 0);
}

// Notes the error, and aborts the transport so that no domain goes on with the values that this step leaves.
void CpuStep::Fail(int worker, absl::Status status) {
  if (options_.transport != nullptr) options_.transport->Abort(status);
  if (workers_[worker].status.ok()) workers_[worker].status = std::move(status);
  has_failed_.store(true, std::memory_order_relaxed);
}

void CpuStep::RunRemote(const Level& level, size_t i, int worker) {
  if (worker > 0) return;
  WorkerState& state = workers_[0];
  const Instruction& instruction = level.schedule->instructions[i];
  const size_t sends = instruction.sends.size(), receives = instruction.receives.size();
  for (size_t k = 0; k < sends; ++k) state.sends[k] = level.addresses[instruction.sends[k].buffer];
  for (size_t k = 0; k < receives; ++k) state.receives[k] = level.addresses[instruction.receives[k].buffer];
  RemoteOp& remote = *level.remotes[static_cast<size_t>(instruction.operation)];
  const auto from = std::span<const std::byte* const>(state.sends).first(sends);
  const auto to = std::span<std::byte* const>(state.receives).first(receives);
  try {
    absl::Status status = instruction.kind == Instruction::Kind::kWait    ? remote.Wait()
                          : instruction.kind == Instruction::Kind::kStart ? remote.Start(from, to)
                                                                          : remote.Run(from, to);
    if (!status.ok()) Fail(worker, std::move(status));
    else if (instruction.is_fence() && instruction.kind != Instruction::Kind::kStart) PassFence();
  } catch (...) {
    Fail(worker, KernelFailed(WhereOf(*level.schedule, instruction)));
  }
}

// By now all domains have ended the step before, so none goes back to the values before that step. If this step has
// failed, nothing is written any more.
void CpuStep::PassFence() {
  if (IsOver()) return;
  wrote_spares_ = true;
  if (options_.poison_padding) PoisonSpares();
}

void CpuStep::RunBody(const Level& body, int worker) {
  for (size_t i = 0; i < body.schedule->instructions.size(); ++i) {
    if (body.schedule->instructions[i].barrier) pool_.barrier().Wait();
    RunInstruction(body, i, worker);
  }
}

// All workers read the same predicate, written before they last met, and go the same way. A step that failed
// leaves its loops: a predicate of values that were not written may stay true for ever. All workers leave at
// the same time, for they meet at barriers.
void CpuStep::RunLoop(const Level& level, size_t i, int worker) {
  const LoopPlan& plan = *level.schedule->instructions[i].loop;
  const auto& bodies = level.bodies[i];
  // Read as a byte and not as a bool: memory that was not written may hold any byte.
  const auto is_true = [&] { return level.addresses[plan.predicate][0] != std::byte{0}; };
  // Before each meeting worker 0 writes whether to leave, and after it all workers read that. There are two entries,
  // used in turn: worker 0 may write the entry of the next meeting while others still read the last one, but it cannot
  // write the last one again before the workers have met in between.
  bool(&leaves)[2] = bodies[0]->leaves;
  int turn = 0;
  const auto meet = [&] {
    turn = 1 - turn;
    if (worker == 0) leaves[turn] = has_failed_.load(std::memory_order_relaxed);
    pool_.barrier().Wait();
    return !leaves[turn];
  };
  switch (plan.kind) {
    case NestedStep::Kind::kRepeat:
      for (int64_t t = 0; t < plan.length; ++t) {
        if (t > 0 && !meet()) return;
        RunBody(*bodies[0], worker);
      }
      return;
    case NestedStep::Kind::kWhile:
      for (;;) {
        RunBody(*bodies[0], worker);
        if (!meet() || !is_true()) return;
        RunBody(*bodies[1], worker);
        if (!meet()) return;
      }
    case NestedStep::Kind::kBranch: RunBody(*bodies[is_true() ? 0 : 1], worker); return;
  }
}

void CpuStep::Compare(size_t i, int worker) {
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

// The error of the step that has run: that of a kernel, or the first difference in program order.
absl::Status CpuStep::StepStatus() const {
  const WorkerState* first = nullptr;
  const auto place = [](const WorkerState& w) {
    return std::tuple(w.instruction, w.item, w.difference.offset);
  };
  for (const WorkerState& worker : workers_) {
    MESHWORK_RETURN_IF_ERROR(worker.status);
    if (worker.instruction >= 0 && (first == nullptr || place(worker) < place(*first))) first = &worker;
  }
  if (first == nullptr) return absl::OkStatus();
  const Instruction& instruction = schedule_.instructions[first->instruction];
  const ValueInfo& info = schedule_.graph->value(instruction.value);
  const auto [a, b] = instruction.replicas[first->item];
  return DifferenceError(
      "Run: " + instruction.subject, info.global, *info.layout, a, b, first->difference,
      options_.cross_device_ops == nullptr ? std::string_view() : options_.cross_device_ops->name());
}

meshwork::Profile CpuStep::Profile() const {
  return profiler_ == nullptr ? meshwork::Profile() : profiler_->Read();
}

meshwork::Trace CpuStep::Trace() const {
  return profiler_ == nullptr ? meshwork::Trace() : profiler_->ReadTrace();
}

void CpuStep::ClearProfile() {
  if (profiler_ != nullptr) profiler_->Clear();
}

void CpuStep::RunKernels(const Level& level, size_t i, int worker) {
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
void CpuStep::RunStep(const Level& level, const Instruction& instruction, const KernelStep& step,
                      int64_t begin, int64_t end, int64_t strip, int worker, Team* team) {
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
                   .end = end * units,
                   .team = team});
}

}  // namespace meshwork
