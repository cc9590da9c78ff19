#include "meshwork/runtime/schedule.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/plan/storage.h"
#include "meshwork/runtime/coalesce.h"
#include "meshwork/runtime/fusion.h"
#include "meshwork/runtime/local_program.h"
#include "meshwork/runtime/loop.h"
#include "meshwork/runtime/placement.h"

namespace meshwork {
namespace {

constexpr int64_t kAlignment = 64;
// Values that depend on nothing are kept from step to step, as long as they are small.
constexpr int64_t kMostConstant = 64 << 10, kMostConstants = 1 << 20;  // bytes of one, of all

class ScheduleBuilder {
 public:
  ScheduleBuilder(const Graph& local, const std::vector<InstanceMap>& variables, int workers,
                  const ScheduleOptions& options)
      : local_(local),
        options_(options),
        constant_(FindConstants(local)),
        values_(local.values().size()),
        rows_(workers) {
    schedule_.num_workers = workers;
    FindInstances(variables);
    storages_ = PlanStorages(local, [this](ValueId a, ValueId b) {
      return values_[a].instances.axes() == values_[b].instances.axes() && !constant_[a] && !constant_[b];
    });
  }

  absl::StatusOr<Schedule> Build() {
    for (size_t a = 0; a < local_.arguments().size(); ++a) AddArgument(static_cast<int>(a));
    for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) RETURN_IF_ERROR(AddNode(n));
    EndGroup();
    for (size_t o = 0; o < local_.outputs().size(); ++o) AddOutput(static_cast<int>(o));
    AddAssignments();
    PlanTiles(schedule_);
    return std::move(schedule_);
  }

 private:
  // ---- What is known before instructions are written.

  void FindInstances(const std::vector<InstanceMap>& variables) {
    std::vector<AxisSet> arguments;  // what is fed is shared anyway
    for (size_t a = 0; a < local_.arguments().size(); ++a)
      arguments.push_back(local_.arguments()[a].is_variable || options_.arguments_are_bound
                              ? variables[a].axes()
                              : local_.value(local_.arguments()[a].value).layout->ShardedAxes());
    const std::vector<AxisSet> varying = VaryingAxes(local_, arguments, options_.share);
    for (size_t v = 0; v < varying.size(); ++v) values_[v].instances = InstanceMap(local_.mesh(), varying[v]);
  }

  // Per value: it depends on no argument, and is small.
  static std::vector<bool> FindConstants(const Graph& local) {
    std::vector<bool> constant(local.values().size(), false);
    int64_t all = 0;  // bytes
    for (const Node& node : local.nodes()) {
      bool is_constant = node.row->kind != OpKind::kCollective && !IsControl(node);
      for (ValueId operand : node.operands) is_constant &= constant[operand];
      int64_t bytes = 0;
      for (ValueId result : node.results)
        bytes += local.value(result).type.bytes() * local.mesh().num_devices();
      is_constant &= bytes <= kMostConstant && all + bytes <= kMostConstants;
      if (is_constant) all += bytes;
      for (ValueId result : node.results) constant[result] = is_constant;
    }
    return constant;
  }

  // ---- Storages.

  int NewStorage(int64_t bytes, Place place = {}) {
    schedule_.storages.push_back({bytes, place});
    return static_cast<int>(schedule_.storages.size()) - 1;
  }

  // Buffers of `bytes` each, one behind the other in a storage.
  BufferId NewBuffers(int64_t count, int64_t bytes, int storage) {
    const auto first = static_cast<BufferId>(schedule_.buffers.size());
    for (int64_t i = 0; i < count; ++i) schedule_.buffers.push_back({bytes, storage, i * bytes});
    return first;
  }

  // A storage of its own for all instances of a value.
  BufferId NewValue(ValueId id, Place place = {}) {
    const int64_t count = values_[id].instances.count(), bytes = local_.value(id).type.bytes();
    return NewBuffers(count, bytes, NewStorage(count * bytes, place));
  }

  int OwnerOf(int64_t device) const { return schedule_.OwnerOf(device, local_.mesh()); }

  // ---- Moving data.

  void AddTransfers(Instruction instruction, std::vector<Transfer> transfers,
                    std::span<const int64_t> devices) {
    std::vector<WorkItem> items;
    for (size_t i = 0; i < transfers.size(); ++i) {
      const Transfer& transfer = transfers[i];
      const auto cost =
          static_cast<double>(transfer.box.elements()) * static_cast<double>(transfer.from.size());
      items.push_back(
          {OwnerOf(devices[i]), transfer.box.elements(), cost, kAlignment / DTypeSize(transfer.dtype)});
    }
    EndGroup();
    instruction.slices = AssignWork(items, schedule_.num_workers);
    instruction.transfers = std::move(transfers);
    for (const Transfer& transfer : instruction.transfers)
      if (transfer.to >= 0) rows_.Forget(schedule_.buffers[transfer.to].storage);
    schedule_.instructions.push_back(std::move(instruction));
  }

  BoxBuffer BoxOf(ValueId value, int64_t device) const {
    return BoxBuffer::OfDevice(*local_.value(value).layout, local_.value(value).global.shape, device);
  }
  Block BlockOf(ValueId value, int64_t device) const {
    return local_.value(value).layout->BlockOf(local_.value(value).global.shape, device);
  }

  // ---- Arguments.

  void AddArgument(int a) {
    const Argument& argument = local_.arguments()[a];
    if (argument.is_variable || options_.arguments_are_bound)
      values_[argument.value].first = NewValue(argument.value, {Place::Kind::kVariable, a, 0});
    else AddFeed(a);
  }

  // What lies in the host tensor as it should, block behind block, is viewed; otherwise it is packed.
  void AddFeed(int a) {
    const ValueId id = local_.arguments()[a].value;
    const ValueInfo& info = local_.value(id);
    ValueBuffers& value = values_[id];
    const int64_t count = value.instances.count(), bytes = info.type.bytes();
    const int host_storage = NewStorage(info.global.bytes(), {Place::Kind::kFeed, a, 0});
    bool is_viewed = true;
    for (int64_t i = 0; i < count && is_viewed; ++i)
      is_viewed = ViewOffset(id, value.instances.Representative(i)) == i * bytes;
    if (is_viewed) {
      value.first = NewBuffers(count, bytes, host_storage);
      return;
    }
    value.first = NewValue(id);
    const BufferId host = NewBuffers(1, info.global.bytes(), host_storage);
    std::vector<Transfer> transfers;
    std::vector<int64_t> devices;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t device = value.instances.Representative(i);
      Transfer transfer;
      transfer.box =
          BoxCopy(BlockOf(id, device), BoxBuffer::Whole(info.layout->FactorShape(info.global.shape)),
                  BoxOf(id, device));
      transfer.dtype = info.type.dtype;
      transfer.from.push_back(host);
      transfer.to = static_cast<BufferId>(value.first + i);
      if (transfer.box.elements() == 0) continue;
      transfers.push_back(std::move(transfer));
      devices.push_back(device);
    }
    if (transfers.empty()) return;
    AddTransfers({.kind = Instruction::Kind::kPack, .subject = fmt::format("input \"{}\"", info.name)},
                 std::move(transfers), devices);
  }

  // Bytes into the host tensor at which `device`'s block lies, if it is full and contiguous there.
  std::optional<int64_t> ViewOffset(ValueId id, int64_t device) const {
    const ValueInfo& info = local_.value(id);
    const Shape global = info.layout->FactorShape(info.global.shape);
    const Block block = BlockOf(id, device);
    const BoxBuffer box = BoxOf(id, device);
    int64_t stride = DTypeSize(info.type.dtype), offset = 0;
    bool whole_below = true;  // every dim below this one is whole in the block
    for (size_t d = global.size(); d-- > 0;) {
      if (block[d].size != box.shape[d]) return std::nullopt;
      if (!whole_below && block[d].size != 1) return std::nullopt;
      whole_below &= block[d].size == global[d];
      offset += block[d].start * stride;
      stride *= global[d];
    }
    return NumElements(block) == 0 ? 0 : offset;
  }

  // ---- Nodes.

  absl::Status AddNode(int n) {
    const Node& node = local_.nodes()[n];
    if (n == reduced_) return absl::OkStatus();
    if (IsControl(node)) return AddLoop(n);
    if (node.row->kind != OpKind::kCollective) {
      AddKernel(n);
      return absl::OkStatus();
    }
    for (ValueId result : node.results) PlaceResult(result);
    std::vector<Transfer> transfers;
    std::vector<int64_t> devices;
    for (size_t r = 0; r < node.results.size(); ++r) {
      ASSIGN_OR_RETURN(std::vector<Transfer> more, PlanCollective(local_, n, static_cast<int>(r), values_));
      const ValueBuffers& result = values_[node.results[r]];
      for (Transfer& transfer : more) {
        devices.push_back(result.instances.Representative(transfer.to - result.first));
        transfers.push_back(std::move(transfer));
      }
    }
    AddTransfers({.kind = Instruction::Kind::kCollective, .node = n}, std::move(transfers), devices);
    return absl::OkStatus();
  }

  // Gives a result its buffers: those of the value it is written over, or new ones.
  void PlaceResult(ValueId result) {
    const ValueId first = storages_[result];
    if (first != result) values_[result].first = values_[first].first;
    else values_[result].first = NewValue(result, constant_[result] ? kConstants : Place());
  }

  // Whether its result is the operand's memory already.
  bool IsView(const Node& node) const {
    return node.row->is_view && storages_[node.results[0]] == storages_[node.operands[0]];
  }

  void AddKernel(int n) {
    const Node& node = local_.nodes()[n];
    if (IsView(node)) return PlaceResult(node.results[0]);
    KernelStep step{.node = n,
                    .num_in = static_cast<int>(node.operands.size()),
                    .instances = values_[node.results[0]].instances.count()};
    std::optional<NodeKernel> made = MakeReducing(n);
    if (made.has_value()) step.reduces = reduced_ = n + 1;
    else made = MakeNodeKernel(local_, n, values_, options_.coalesces());
    const std::span<const ValueId> results =
        step.reduces >= 0 ? std::span<const ValueId>(local_.nodes()[step.reduces].results) : node.results;
    for (ValueId result : results) PlaceResult(result);
    step.blocks = std::move(made->blocks);
    const auto add = [&](ValueId id, int64_t parts, bool is_result) {
      const ValueBuffers& value = values_[id];
      step.buffers.push_back(
          {value.first, value.instances.count() * local_.value(id).type.bytes(), parts, is_result});
    };
    for (size_t o = 0; o < node.operands.size(); ++o) add(node.operands[o], made->kernel.PartsOf(o), false);
    for (ValueId result : results) add(result, made->kernel.by_rows ? made->kernel.units : 1, true);
    step.kernel = std::move(made->kernel);
    step.needed = NeededUnits(step);
    if (step.reduces < 0 && constant_[node.results[0]]) return AddOnce(std::move(step));
    const bool joins = options_.fuse && !group_.empty() && made->one_by_one == one_by_one_ &&
                       group_.Add(step, schedule_.buffers);
    if (!joins) {
      EndGroup();
      group_.Add(step, schedule_.buffers);
      items_ = made->items;
      one_by_one_ = made->one_by_one;
    }
  }

  // Devices whose blocks are empty compute nothing, if they are the last ones: what a reduction reads of
  // their padding is what mask_padding leaves there, or a reshape of that.
  int64_t NeededUnits(const KernelStep& step) const {
    const Node& node = local_.nodes()[step.node];
    const int64_t units = step.kernel.units;
    if (!step.kernel.by_rows || step.reduces >= 0 || node.row->is_view || node.row->name == "mask_padding")
      return units;
    const InstanceMap& instances = values_[node.results[0]].instances;
    if (units % instances.count() != 0) return units;
    const auto is_empty = [&](int64_t instance) {
      return std::all_of(node.results.begin(), node.results.end(), [&](ValueId result) {
        return NumElements(BlockOf(result, instances.Representative(instance))) == 0;
      });
    };
    int64_t count = instances.count();
    while (count > 0 && is_empty(count - 1)) --count;
    const int64_t needed = units / instances.count() * count;
    return step.kernel.MayCutAt(needed) ? needed : units;
  }

  // Computes the sums that the next node would make of the results, if the next node is an all_reduce, and
  // the memory of the sums is not that of an operand.
  std::optional<NodeKernel> MakeReducing(int n) const {
    if (!options_.coalesces() || n + 1 >= static_cast<int>(local_.nodes().size())) return std::nullopt;
    const Node &node = local_.nodes()[n], &next = local_.nodes()[n + 1];
    if (node.results.size() != 1 || readers_[node.results[0]] != 1) return std::nullopt;
    for (ValueId operand : node.operands)
      if (!next.results.empty() && storages_[operand] == storages_[next.results[0]]) return std::nullopt;
    return MakeReducingKernel(local_, n, n + 1, values_);
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
      cost += CostOf(step);
      const int64_t of_row = std::max<int64_t>(1, step.kernel.units / std::max<int64_t>(1, instruction.rows));
      instruction.needed = std::max(instruction.needed, (step.needed + of_row - 1) / of_row);
    }
    if (!instruction.steps[0].kernel.MayCutAt(instruction.needed)) instruction.needed = instruction.rows;
    rows_.Assign(schedule_, cost, instruction);
    schedule_.instructions.push_back(std::move(instruction));
  }

  // Floating-point operations, and elements read, of all instances.
  double CostOf(const KernelStep& step) const {
    const Node& node = local_.nodes()[step.node];
    double cost = FlopsOf(local_, node) * static_cast<double>(step.instances);
    for (ValueId id : node.operands)
      cost += static_cast<double>(local_.value(id).type.num_elements() * values_[id].instances.count());
    return std::max(cost, 1.0);
  }

  // ---- Loops and branches.

  absl::Status AddLoop(int n) {
    const Node& node = local_.nodes()[n];
    const LoweredLoop lowered = LoweredLoopOf(node);
    EndGroup();
    for (ValueId result : node.results) PlaceResult(result);
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (lowered.initial[r] < 0) continue;
      const ValueId operand = node.operands[lowered.initial[r]];
      const ValueBuffers &from = values_[operand], &to = values_[node.results[r]];
      if (from.first != to.first) AddCopy(local_.Describe(n), operand, from, to);
    }
    std::vector<ValueId> arguments(node.results.begin(), node.results.end());
    arguments.insert(arguments.end(), node.operands.begin() + lowered.first_read, node.operands.end());
    auto plan = std::make_shared<LoopPlan>();
    plan->kind = node.row->control == ControlKind::kScan    ? LoopPlan::Kind::kRepeat
                 : node.row->control == ControlKind::kWhile ? LoopPlan::Kind::kWhile
                                                            : LoopPlan::Kind::kBranch;
    if (plan->kind == LoopPlan::Kind::kRepeat) plan->length = node.attrs.Get<int64_t>("length");
    if (plan->kind == LoopPlan::Kind::kWhile) plan->predicate = values_[node.results[0]].first;
    if (plan->kind == LoopPlan::Kind::kBranch) plan->predicate = values_[node.operands[0]].first;
    for (const auto& region : node.regions) {
      ASSIGN_OR_RETURN(LoopPlan::Body body, PlanBody(region, arguments));
      plan->bodies.push_back(std::move(body));
    }
    Instruction instruction{.kind = Instruction::Kind::kLoop, .node = n, .accesses = AccessesOf(n, *plan)};
    instruction.slices.assign(schedule_.num_workers, {WorkSlice{0, 0, 1}});
    instruction.loop = std::move(plan);
    for (const LoopAccess& access : instruction.accesses)
      if (access.is_write) rows_.Forget(access.storage);
    schedule_.instructions.push_back(std::move(instruction));
    return absl::OkStatus();
  }

  absl::StatusOr<LoopPlan::Body> PlanBody(std::shared_ptr<const Graph> region,
                                          const std::vector<ValueId>& arguments) {
    LoopPlan::Body body{.graph = std::move(region)};
    // Every argument lies in memory that is there, as variables do.
    std::vector<InstanceMap> instances;
    for (ValueId id : arguments) {
      instances.push_back(values_[id].instances);
      body.arguments.push_back(values_[id].first);
    }
    ScheduleOptions options = options_;
    options.check_replicas = false;
    options.arguments_are_bound = true;
    ASSIGN_OR_RETURN(body.schedule, MakeSchedule(*body.graph, instances, schedule_.num_workers, options));
    for (int64_t bytes : body.schedule.private_bytes)
      body.private_arenas.push_back(NewBuffers(1, bytes, NewStorage(bytes)));
    const int64_t shared = body.schedule.shared_bytes, constants = body.schedule.constant_bytes;
    body.shared_arena = NewBuffers(1, shared, NewStorage(shared));
    body.constants = NewBuffers(1, constants, NewStorage(constants, kConstants));
    return body;
  }

  // All workers may touch all of the values, and of the arenas what is theirs.
  std::vector<LoopAccess> AccessesOf(int n, const LoopPlan& plan) const {
    const Node& node = local_.nodes()[n];
    std::vector<LoopAccess> accesses;
    const auto add = [&](ValueId id, bool is_write) {
      const int64_t bytes = values_[id].instances.count() * local_.value(id).type.bytes();
      const Buffer& first = schedule_.buffers[values_[id].first];
      accesses.push_back({-1, first.storage, first.offset, first.offset + bytes, is_write});
    };
    for (ValueId id : node.operands) add(id, false);
    for (ValueId id : node.results) add(id, true);
    for (const LoopPlan::Body& body : plan.bodies) {
      const Buffer& shared = schedule_.buffers[body.shared_arena];
      accesses.push_back({-1, shared.storage, 0, shared.bytes, true});
      for (int w = 0; w < schedule_.num_workers; ++w) {
        const Buffer& own = schedule_.buffers[body.private_arenas[w]];
        accesses.push_back({w, own.storage, 0, own.bytes, true});
      }
    }
    return accesses;
  }

  // ---- The end of the step.

  // Compares the instances of a value that its layout says are the same, at most once.
  void AddComparison(std::string subject, ValueId id) {
    if (!options_.check_replicas || !compared_.insert(id).second) return;
    const ValueBuffers& value = values_[id];
    const AxisSet sharded = local_.value(id).layout->ShardedAxes();
    const InstanceMap blocks(local_.mesh(), sharded),
        all(local_.mesh(), sharded.Union(value.instances.axes()));
    Instruction instruction{.kind = Instruction::Kind::kCompare, .subject = std::move(subject), .value = id};
    std::vector<Transfer> transfers;
    std::vector<int64_t> devices;
    for (int64_t i = 0; i < all.count(); ++i) {
      const int64_t device = all.Representative(i), first = blocks.Representative(blocks.Of(device));
      if (value.Of(first) == value.Of(device)) continue;
      Transfer transfer;
      transfer.box = BoxCopy(BlockOf(id, device), BoxOf(id, device), BoxOf(id, device));
      transfer.dtype = local_.value(id).type.dtype;
      transfer.from = {value.Of(first), value.Of(device)};
      if (transfer.box.elements() == 0) continue;
      transfers.push_back(std::move(transfer));
      devices.push_back(device);
      instruction.replicas.emplace_back(first, device);
    }
    if (!transfers.empty()) AddTransfers(std::move(instruction), std::move(transfers), devices);
  }

  void AddOutput(int o) {
    const ValueId id = local_.outputs()[o].value;
    const std::string subject = fmt::format("output \"{}\"", OutputName(local_, o));
    AddComparison(subject, id);
    const ValueInfo& info = local_.value(id);
    const BufferId host =
        NewBuffers(1, info.global.bytes(), NewStorage(info.global.bytes(), {Place::Kind::kOutput, o, 0}));
    std::vector<Transfer> transfers;
    std::vector<int64_t> devices;
    const InstanceMap blocks(local_.mesh(), info.layout->ShardedAxes());
    for (int64_t i = 0; i < blocks.count(); ++i) {
      const int64_t device = blocks.Representative(i);
      Transfer transfer;
      transfer.box = BoxCopy(BlockOf(id, device), BoxOf(id, device),
                             BoxBuffer::Whole(info.layout->FactorShape(info.global.shape)));
      transfer.dtype = info.type.dtype;
      transfer.from.push_back(values_[id].Of(device));
      transfer.to = host;
      if (transfer.box.elements() == 0) continue;
      transfers.push_back(std::move(transfer));
      devices.push_back(device);
    }
    AddTransfers({.kind = Instruction::Kind::kUnpack, .subject = subject}, std::move(transfers), devices);
  }

  // Copies one value's buffers to another's, instance by instance of the target.
  void AddCopy(std::string subject, ValueId from_id, const ValueBuffers& from, const ValueBuffers& to) {
    std::vector<Transfer> transfers;
    std::vector<int64_t> devices;
    for (int64_t i = 0; i < to.instances.count(); ++i) {
      devices.push_back(to.instances.Representative(i));
      Transfer transfer;
      transfer.box = BoxCopy::Linear(local_.value(from_id).type.num_elements());
      transfer.dtype = local_.value(from_id).type.dtype;
      transfer.from.push_back(from.Of(devices.back()));
      transfer.to = to.Of(devices.back());
      transfers.push_back(std::move(transfer));
    }
    AddTransfers({.kind = Instruction::Kind::kAssign, .subject = std::move(subject)}, std::move(transfers),
                 devices);
  }

  std::string SubjectOf(const VariableUpdate& update) const {
    return fmt::format("variable \"{}\"", local_.argument_name(update.argument));
  }

  // Updates that were not written in place. What one of them overwrites and another still needs (two
  // variables that swap) is set aside first.
  void AddAssignments() {
    for (const VariableUpdate& update : local_.updates()) AddComparison(SubjectOf(update), update.value);
    std::vector<std::pair<ValueId, ValueBuffers>> sources;  // per update
    const std::vector<bool> is_set_aside = SetAside(local_);
    for (const VariableUpdate& update : local_.updates()) {
      sources.emplace_back(update.value, values_[update.value]);
      if (!is_set_aside[sources.size() - 1]) continue;
      ValueBuffers aside = values_[update.value];
      aside.first = NewValue(update.value);
      AddCopy(SubjectOf(update), update.value, values_[update.value], aside);
      sources.back().second = aside;
    }
    for (size_t u = 0; u < sources.size(); ++u) {
      const ValueBuffers& target = values_[local_.arguments()[local_.updates()[u].argument].value];
      const bool in_place = sources[u].second.first == target.first;
      if (!in_place) AddCopy(SubjectOf(local_.updates()[u]), sources[u].first, sources[u].second, target);
    }
  }

  static constexpr Place kConstants = {Place::Kind::kConstant, 0, 0};

  const Graph& local_;
  const ScheduleOptions options_;
  const std::vector<bool> constant_;  // per value
  const std::vector<int> readers_ = CountReaders(local_);
  std::set<ValueId> compared_;
  std::vector<ValueBuffers> values_;  // per value
  std::vector<ValueId> storages_;     // per value the first that lies in its memory
  Schedule schedule_;
  // The group that is being made, of kernels over these items.
  Group group_;
  InstanceMap items_;
  bool one_by_one_ = false;
  int reduced_ = -1;  // the last all_reduce that a kernel before it did
  RowCuts rows_;
};

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(const Graph& local, const std::vector<InstanceMap>& variables,
                                      int workers, const ScheduleOptions& options) {
  ASSIGN_OR_RETURN(Schedule schedule, ScheduleBuilder(local, variables, workers, options).Build());
  PlaceBarriers(schedule);
  PlaceStorages(schedule);
  const absl::Status checked = CheckSchedule(schedule);
  MESHWORK_CHECK(checked.ok(), "{}", MessageOf(checked));
  return schedule;
}

}  // namespace meshwork
