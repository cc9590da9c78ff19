#include "meshwork/runtime/cpu/schedule.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "meshwork/base/status.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/runtime/cpu/fusion.h"
#include "meshwork/runtime/cpu/kernels.h"
#include "meshwork/runtime/cpu/placement.h"
#include "meshwork/runtime/plan/cross_device.h"

namespace meshwork {
namespace {

constexpr int64_t kAlignment = 64;

// The place of a storage of a plan; PlaceStorages will place temporary ones.
Place PlaceOf(const Storage& storage) {
  switch (storage.kind) {
    case Storage::Kind::kTemporary: return {};
    case Storage::Kind::kConstant: return {Place::Kind::kConstant};
    case Storage::Kind::kVariable: return {Place::Kind::kVariable, storage.index};
    case Storage::Kind::kSpare: return {Place::Kind::kSpare, storage.index};
    case Storage::Kind::kFeed:
    case Storage::Kind::kHostFeed: return {Place::Kind::kFeed, storage.index};
    case Storage::Kind::kOutput:
    case Storage::Kind::kHostOutput: return {Place::Kind::kOutput, storage.index};
  }
  return {};
}

Instruction::Kind KindOf(CopyStep::Kind kind) {
  switch (kind) {
    case CopyStep::Kind::kPack: return Instruction::Kind::kPack;
    case CopyStep::Kind::kCollective: return Instruction::Kind::kCollective;
    case CopyStep::Kind::kSend: return Instruction::Kind::kSend;
    case CopyStep::Kind::kReceive: return Instruction::Kind::kReceive;
    case CopyStep::Kind::kUnpack: return Instruction::Kind::kUnpack;
    case CopyStep::Kind::kAssign: return Instruction::Kind::kAssign;
    case CopyStep::Kind::kCompare: return Instruction::Kind::kCompare;
  }
  return Instruction::Kind::kAssign;
}

Instruction::Kind KindOf(RemoteStep::Kind kind) {
  switch (kind) {
    case RemoteStep::Kind::kRun: return Instruction::Kind::kRemote;
    case RemoteStep::Kind::kStart: return Instruction::Kind::kStart;
    case RemoteStep::Kind::kWait: return Instruction::Kind::kWait;
  }
  return Instruction::Kind::kRemote;
}

// Writes the steps of a plan as instructions, with the slices of each worker.
class ScheduleBuilder {
 public:
  ScheduleBuilder(StepPlan plan, int workers, bool fuse)
      : plan_(std::move(plan)), local_(*plan_.graph), fuse_(fuse), rows_(workers) {
    schedule_.graph = plan_.graph;
    schedule_.domain = plan_.domain;
    schedule_.num_workers = workers;
    schedule_.buffers = plan_.buffers;
    schedule_.num_operations = plan_.num_operations;
    TakeStorages();
  }

  Schedule Build() && {
    for (Step& step : plan_.steps) std::visit([this](auto& kind) { Add(kind); }, step);
    EndGroup();
    PlanTiles(schedule_);
    return std::move(schedule_);
  }

 private:
  // ---- Storages.

  // Takes over the storages of the plan, in their order. The arenas of a step's bodies come before the
  // storages that later steps write, because among storages of one size those of earlier steps are placed
  // first.
  void TakeStorages() {
    const auto take = [&](size_t end) {
      while (numbers_.size() < end) {
        const Storage& storage = plan_.storages[numbers_.size()];
        numbers_.push_back(NewStorage({storage.bytes, PlaceOf(storage)}));
      }
    };
    size_t written = 0;
    for (Step& step : plan_.steps) {
      written = std::max(written, std::visit([this](const auto& kind) { return EndOfWritten(kind); }, step));
      if (auto* const nested = std::get_if<NestedStep>(&step)) {
        take(written);
        ScheduleBodies(*nested);
      }
    }
    take(plan_.storages.size());
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      schedule_.buffers[b].storage = numbers_[plan_.buffers[b].storage];
  }

  int NewStorage(const PlacedStorage& storage) {
    schedule_.storages.push_back(storage);
    return static_cast<int>(schedule_.storages.size()) - 1;
  }

  // The number of the last storage of the plan that a step writes, plus 1.
  size_t EndOfWritten(BufferId buffer) const {
    return buffer < 0 ? 0 : static_cast<size_t>(plan_.buffers[buffer].storage) + 1;
  }
  size_t EndOfWritten(const std::vector<ValueBuffers>& results) const {
    size_t end = 0;
    for (const ValueBuffers& result : results) end = std::max(end, EndOfWritten(result.first));
    return end;
  }
  size_t EndOfWritten(const ComputeStep& step) const { return EndOfWritten(step.out); }
  size_t EndOfWritten(const NestedStep& step) const { return EndOfWritten(step.out); }
  size_t EndOfWritten(const RemoteStep& step) const {
    size_t end = 0;
    for (const RemoteStep::Part& part : step.receives) end = std::max(end, EndOfWritten(part.buffer));
    return end;
  }
  size_t EndOfWritten(const CopyStep& step) const {
    size_t end = 0;
    for (const Transfer& transfer : step.transfers) end = std::max(end, EndOfWritten(transfer.to));
    return end;
  }

  // ---- Copies.

  void Add(CopyStep& copies) {
    EndGroup();
    if (!copies.calls.empty()) return AddCalls(copies);
    std::vector<WorkItem> items;
    for (size_t i = 0; i < copies.transfers.size(); ++i) {
      const Transfer& transfer = copies.transfers[i];
      const auto cost =
          static_cast<double>(transfer.box.elements()) * static_cast<double>(transfer.from.size());
      items.push_back({schedule_.OwnerOf(copies.devices[i]), transfer.box.elements(), cost,
                       kAlignment / DTypeSize(transfer.dtype)});
    }
    Instruction instruction{.kind = KindOf(copies.kind),
                            .node = copies.node,
                            .subject = std::move(copies.subject),
                            .transfers = std::move(copies.transfers),
                            .value = copies.value,
                            .replicas = std::move(copies.replicas),
                            .slices = AssignWork(items, schedule_.num_workers)};
    if (instruction.kind == Instruction::Kind::kCollective)
      for (std::vector<WorkSlice>& slices : instruction.slices)
        SortByWhatIsRead(instruction.transfers, slices);
    for (const Transfer& transfer : instruction.transfers)
      if (transfer.to >= 0) rows_.Forget(schedule_.buffers[transfer.to].storage);
    schedule_.instructions.push_back(std::move(instruction));
  }

  // The pieces of all packs, in order, are shared out between the workers.
  void AddCalls(CopyStep& copies) {
    struct Piece {
      const CrossDeviceCall* call;
      int64_t begin, end;
    };
    std::vector<Piece> pieces;
    for (const CrossDeviceCall& call : copies.calls) {
      const Transfer& first = copies.transfers[static_cast<size_t>(call.first)];
      const int64_t count = first.box.elements();
      const int64_t size = copies.in_parts ? CrossDeviceOps::kPieceBytes / DTypeSize(first.dtype) : count;
      for (int64_t begin = 0; begin < count; begin += size)
        pieces.push_back({&call, begin, std::min(begin + size, count)});
    }
    const int64_t workers = copies.in_parts ? schedule_.num_workers : 1;
    std::vector<std::vector<WorkSlice>> slices(static_cast<size_t>(schedule_.num_workers));
    for (size_t p = 0; p < pieces.size(); ++p) {
      const size_t worker = p * static_cast<size_t>(workers) / pieces.size();
      for (int k = 0; k < pieces[p].call->results; ++k)
        slices[worker].push_back({pieces[p].call->first + k, pieces[p].begin, pieces[p].end});
    }
    for (const Transfer& transfer : copies.transfers) rows_.Forget(schedule_.buffers[transfer.to].storage);
    schedule_.instructions.push_back({.kind = Instruction::Kind::kCollective,
                                      .node = copies.node,
                                      .transfers = std::move(copies.transfers),
                                      .calls = std::move(copies.calls),
                                      .slices = std::move(slices)});
  }

  // One worker runs the operation. The data that it sends is ready before, and the data that it receives is
  // read afterwards.
  void Add(RemoteStep& remote) {
    EndGroup();
    Instruction instruction{.kind = KindOf(remote.kind), .node = remote.node, .operation = remote.operation};
    const auto add = [&](const std::vector<RemoteStep::Part>& parts, bool is_write) {
      for (const RemoteStep::Part& part : parts) {
        const Buffer& buffer = schedule_.buffers[part.buffer];
        instruction.accesses.push_back(
            {0, buffer.storage, buffer.offset, buffer.offset + buffer.bytes, is_write});
        if (is_write) rows_.Forget(buffer.storage);
      }
    };
    add(remote.sends, false);
    add(remote.receives, true);
    if (remote.is_fence()) instruction.subject = "the fence";
    for (int storage : remote.guarded)
      instruction.accesses.push_back({0, numbers_[storage], 0, plan_.storages[storage].bytes, true});
    instruction.sends = std::move(remote.sends);
    instruction.receives = std::move(remote.receives);
    instruction.slices.resize(schedule_.num_workers);
    instruction.slices[0].push_back({0, 0, 1});
    schedule_.instructions.push_back(std::move(instruction));
  }

  // ---- Kernels.

  void Add(ComputeStep& compute) {
    KernelStep step = StepOf(compute);
    if (compute.once) return AddOnce(std::move(step));
    const bool joins =
        fuse_ && !group_.empty() && compute.one_by_one == one_by_one_ && group_.Add(step, schedule_.buffers);
    if (joins) return;
    EndGroup();
    group_.Add(step, schedule_.buffers);
    items_ = compute.items;
    one_by_one_ = compute.one_by_one;
  }

  KernelStep StepOf(const ComputeStep& compute) const {
    KernelStep step{.node = compute.node,
                    .kernel = MakeKernel(plan_, compute),
                    .num_in = static_cast<int>(compute.in.size()),
                    .blocks = compute.blocks[0],
                    .instances = compute.instances,
                    .reduces = compute.reduces,
                    .cost = CostOf(compute)};
    const auto add = [&](const ValueBuffers& value, int64_t parts, bool is_result) {
      step.buffers.push_back({value.first, plan_.BytesOf(value), parts, is_result});
    };
    for (size_t o = 0; o < compute.in.size(); ++o) add(compute.in[o], step.kernel.PartsOf(o), false);
    for (const ValueBuffers& result : compute.out)
      add(result, step.kernel.by_rows ? step.kernel.units : 1, true);
    step.needed = NeededUnits(step.kernel, compute);
    return step;
  }

  static int64_t NeededUnits(const Kernel& kernel, const ComputeStep& compute) {
    const int64_t items = compute.items.count();
    if (!kernel.by_rows || kernel.units % items != 0) return kernel.units;
    const int64_t needed = kernel.units / items * compute.needed;
    return kernel.MayCutAt(needed) ? needed : kernel.units;
  }

  double CostOf(const ComputeStep& compute) const {
    const Node& node = local_.nodes()[compute.node];
    double cost = FlopsOf(local_, node) * static_cast<double>(compute.instances);
    for (size_t o = 0; o < node.operands.size(); ++o)
      cost += static_cast<double>(local_.value(node.operands[o]).type.num_elements() *
                                  compute.in[o].instances.count());
    return std::max(cost, 1.0);
  }

  void AddOnce(KernelStep step) {
    Instruction instruction{.kind = Instruction::Kind::kKernel, .node = step.node, .rows = step.kernel.units};
    instruction.slices.resize(schedule_.num_workers);
    if (instruction.rows > 0) instruction.slices[0].push_back({0, 0, instruction.rows});
    instruction.steps.push_back(std::move(step));
    schedule_.once.push_back(std::move(instruction));
  }

  // Writes the group as an instruction.
  void EndGroup() {
    if (group_.empty()) return;
    Instruction instruction{.kind = Instruction::Kind::kKernel,
                            .node = group_.steps()[0].node,
                            .rows = group_.rows(),
                            .items = items_,
                            .one_by_one = one_by_one_};
    instruction.steps = group_.Take();
    double cost = 0;
    for (const KernelStep& step : instruction.steps) {
      cost += step.cost;
      const int64_t of_row = std::max<int64_t>(1, step.kernel.units / std::max<int64_t>(1, instruction.rows));
      instruction.needed = std::max(instruction.needed, (step.needed + of_row - 1) / of_row);
    }
    if (!instruction.steps[0].kernel.MayCutAt(instruction.needed)) instruction.needed = instruction.rows;
    rows_.Assign(schedule_, cost, instruction);
    schedule_.instructions.push_back(std::move(instruction));
  }

  // ---- Loops and branches.

  void Add(NestedStep& nested) {
    EndGroup();
    const std::shared_ptr<LoopPlan>& loop = loops_.at(nested.node);
    Instruction instruction{.kind = Instruction::Kind::kLoop,
                            .node = nested.node,
                            .loop = loop,
                            .accesses = AccessesOf(nested, *loop)};
    instruction.slices.assign(schedule_.num_workers, {WorkSlice{0, 0, 1}});
    for (const Access& access : instruction.accesses)
      if (access.is_write) rows_.Forget(access.storage);
    schedule_.instructions.push_back(std::move(instruction));
  }

  void ScheduleBodies(NestedStep& nested) {
    auto loop = std::make_shared<LoopPlan>();
    loop->kind = nested.kind;
    loop->length = nested.length;
    loop->predicate = nested.predicate;
    loop->arguments = std::move(nested.arguments);
    for (StepPlan& body : nested.bodies) loop->bodies.push_back(ScheduleBody(std::move(body)));
    loops_[nested.node] = std::move(loop);
  }

  LoopPlan::Body ScheduleBody(StepPlan plan) {
    LoopPlan::Body body{.schedule = MakeSchedule(std::move(plan), schedule_.num_workers, fuse_)};
    for (int64_t bytes : body.schedule.private_bytes) body.private_arenas.push_back(NewArena(bytes, {}));
    body.shared_arena = NewArena(body.schedule.shared_bytes, {});
    body.constants = NewArena(body.schedule.constant_bytes, {Place::Kind::kConstant});
    return body;
  }

  BufferId NewArena(int64_t bytes, const Place& place) {
    schedule_.buffers.push_back({bytes, NewStorage({bytes, place}), 0});
    return static_cast<BufferId>(schedule_.buffers.size()) - 1;
  }

  // All workers may touch all of the values and the shared arenas, and each worker its own private arenas.
  std::vector<Access> AccessesOf(const NestedStep& nested, const LoopPlan& loop) const {
    std::vector<Access> accesses;
    const auto add = [&](const ValueBuffers& value, bool is_write) {
      const Buffer& first = schedule_.buffers[value.first];
      accesses.push_back({-1, first.storage, first.offset, first.offset + plan_.BytesOf(value), is_write});
    };
    for (const ValueBuffers& value : nested.in) add(value, false);
    for (const ValueBuffers& value : nested.out) add(value, true);
    for (const LoopPlan::Body& body : loop.bodies) {
      const Buffer& shared = schedule_.buffers[body.shared_arena];
      accesses.push_back({-1, shared.storage, 0, shared.bytes, true});
      for (int w = 0; w < schedule_.num_workers; ++w) {
        const Buffer& own = schedule_.buffers[body.private_arenas[w]];
        accesses.push_back({w, own.storage, 0, own.bytes, true});
      }
    }
    return accesses;
  }

  StepPlan plan_;
  const Graph& local_;
  const bool fuse_;
  Schedule schedule_;
  std::vector<int> numbers_;                        // per storage of the plan
  std::map<int, std::shared_ptr<LoopPlan>> loops_;  // of nested steps, by their nodes
  // The group that is being made, of kernels over these items.
  Group group_;
  InstanceMap items_;
  bool one_by_one_ = false;
  RowCuts rows_;
};

}  // namespace

std::string_view NameOf(Instruction::Kind kind) {
  switch (kind) {
    case Instruction::Kind::kKernel: return "kernel";
    case Instruction::Kind::kCollective: return "collective";
    case Instruction::Kind::kSend: return "send";
    case Instruction::Kind::kReceive: return "receive";
    case Instruction::Kind::kRemote: return "remote";
    case Instruction::Kind::kStart: return "start";
    case Instruction::Kind::kWait: return "wait";
    case Instruction::Kind::kPack: return "pack";
    case Instruction::Kind::kUnpack: return "unpack";
    case Instruction::Kind::kAssign: return "assign";
    case Instruction::Kind::kCompare: return "compare";
    case Instruction::Kind::kLoop: return "loop";
  }
  return "";
}

Schedule MakeSchedule(StepPlan plan, int workers, bool fuse) {
  Schedule schedule = ScheduleBuilder(std::move(plan), workers, fuse).Build();
  PlaceBarriers(schedule);
  PlaceStorages(schedule);
  const absl::Status checked = CheckSchedule(schedule);
  MESHWORK_CHECK(checked.ok(), "{}", MessageOf(checked));
  return schedule;
}

}  // namespace meshwork
