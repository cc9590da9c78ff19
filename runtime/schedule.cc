#include "runtime/schedule.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/status.h"
#include "ops/program.h"
#include "ops/row.h"
#include "ops/storage.h"
#include "runtime/local_program.h"
#include "runtime/placement.h"

namespace meshwork {
namespace {

constexpr int64_t kAlignment = 64;

class ScheduleBuilder {
 public:
  ScheduleBuilder(const Graph& local, const std::vector<InstanceMap>& variables, int workers, bool share,
                  bool check_replicas)
      : local_(local), check_replicas_(check_replicas), values_(local.values().size()) {
    schedule_.num_workers = workers;
    FindInstances(variables, share);
    storages_ = PlanStorages(local, [this](ValueId a, ValueId b) {
      return values_[a].instances.axes() == values_[b].instances.axes();
    });
  }

  absl::StatusOr<Schedule> Build() {
    for (size_t a = 0; a < local_.arguments().size(); ++a) AddArgument(static_cast<int>(a));
    for (size_t n = 0; n < local_.nodes().size(); ++n) RETURN_IF_ERROR(AddNode(static_cast<int>(n)));
    for (size_t o = 0; o < local_.outputs().size(); ++o) AddOutput(static_cast<int>(o));
    AddAssignments();
    return std::move(schedule_);
  }

 private:
  // ---- What is known before instructions are written.

  void FindInstances(const std::vector<InstanceMap>& variables, bool share) {
    std::vector<AxisSet> arguments;
    for (size_t a = 0; a < local_.arguments().size(); ++a) {
      const Argument& argument = local_.arguments()[a];
      arguments.push_back(argument.is_variable ? variables[a].axes()
                          : share              ? local_.value(argument.value).layout->ShardedAxes()
                                               : AllAxes(local_.mesh()));
    }
    const std::vector<AxisSet> varying = VaryingAxes(local_, arguments, share);
    for (size_t v = 0; v < varying.size(); ++v) values_[v].instances = InstanceMap(local_.mesh(), varying[v]);
  }

  // ---- Buffers.

  int64_t BytesOf(ValueId value) const {
    return (local_.value(value).type.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }

  BufferId NewBuffers(int64_t count, int64_t bytes) {
    const auto first = static_cast<BufferId>(schedule_.buffers.size());
    schedule_.buffers.resize(schedule_.buffers.size() + static_cast<size_t>(count), {bytes, {}});
    return first;
  }

  // Buffers for every instance of a value, to be placed in an arena.
  BufferId NewStorage(int64_t count, int64_t bytes) {
    const BufferId first = NewBuffers(count, bytes);
    schedule_.storages.push_back({first, static_cast<int>(count)});
    return first;
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
    instruction.slices = AssignWork(items, schedule_.num_workers);
    instruction.transfers = std::move(transfers);
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
    ValueBuffers& value = values_[argument.value];
    const int64_t count = value.instances.count(), bytes = BytesOf(argument.value);
    if (!argument.is_variable) return AddFeed(a);
    value.first = NewBuffers(count, bytes);
    for (int64_t i = 0; i < count; ++i)
      schedule_.buffers[value.first + i].place = {Place::Kind::kVariable, a,
                                                  i * local_.value(argument.value).type.bytes()};
  }

  // Blocks that lie in the host tensor as they should are viewed; the others are packed.
  void AddFeed(int a) {
    const ValueId id = local_.arguments()[a].value;
    const ValueInfo& info = local_.value(id);
    ValueBuffers& value = values_[id];
    value.first = NewStorage(value.instances.count(), BytesOf(id));
    const BufferId host = NewBuffers(1, info.global.bytes());
    schedule_.buffers[host].place = {Place::Kind::kFeed, a, 0};
    std::vector<Transfer> transfers;
    std::vector<int64_t> devices;
    for (int64_t i = 0; i < value.instances.count(); ++i) {
      const int64_t device = value.instances.Representative(i);
      const auto buffer = static_cast<BufferId>(value.first + i);
      if (const std::optional<int64_t> offset = ViewOffset(id, device)) {
        schedule_.buffers[buffer].place = {Place::Kind::kFeed, a, *offset};
        continue;
      }
      Transfer transfer;
      transfer.box =
          BoxCopy(BlockOf(id, device), BoxBuffer::Whole(info.layout->FactorShape(info.global.shape)),
                  BoxOf(id, device));
      transfer.dtype = info.type.dtype;
      transfer.from.push_back(host);
      transfer.to = buffer;
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
    for (ValueId result : node.results) PlaceResult(result);
    if (node.row->kind != OpKind::kCollective) {
      AddKernel(n);
      return absl::OkStatus();
    }
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
    values_[result].first = first != result ? values_[first].first
                                            : NewStorage(values_[result].instances.count(), BytesOf(result));
  }

  void AddKernel(int n) {
    const Node& node = local_.nodes()[n];
    Instruction instruction{.kind = Instruction::Kind::kKernel, .node = n};
    KernelSpec spec{.operands = {}, .results = {}, .attrs = node.attrs};
    for (ValueId id : node.operands)
      spec.operands.push_back({local_.value(id).type, local_.value(id).global});
    for (ValueId id : node.results) spec.results.push_back({local_.value(id).type, local_.value(id).global});
    instruction.kernel = node.row->cpu(spec);
    instruction.num_in = static_cast<int>(node.operands.size());
    instruction.num_out = static_cast<int>(node.results.size());
    const InstanceMap& items = values_[node.results[0]].instances;  // those of every operand are no finer
    instruction.items = items;
    for (int64_t i = 0; i < items.count(); ++i) AddItem(node, items.Representative(i), i == 0, instruction);
    instruction.slices =
        AssignWork(KernelItems(node, items, instruction.kernel.units), schedule_.num_workers);
    schedule_.instructions.push_back(std::move(instruction));
  }

  void AddItem(const Node& node, int64_t device, bool first, Instruction& instruction) const {
    auto add = [&](ValueId id) {
      instruction.buffers.push_back(values_[id].Of(device));
      if (node.row->reads_block) instruction.blocks.push_back(BlockOf(id, device));
      else if (first) instruction.blocks.push_back(WholeBlock(local_.value(id).type.shape));
    };
    for (ValueId id : node.operands) add(id);
    for (ValueId id : node.results) add(id);
  }

  std::vector<WorkItem> KernelItems(const Node& node, const InstanceMap& instances, int64_t units) const {
    double cost = FlopsOf(local_, node);
    for (ValueId id : node.operands) cost += static_cast<double>(local_.value(id).type.num_elements());
    // Cuts between elements keep cache lines apart.
    const int64_t multiple = units >= 64 * schedule_.num_workers ? 16 : 1;
    std::vector<WorkItem> items;
    for (int64_t i = 0; i < instances.count(); ++i)
      items.push_back({OwnerOf(instances.Representative(i)), units, std::max(cost, 1.0), multiple});
    return items;
  }

  // ---- The end of the step.

  // Compares the instances of a value that its layout says are the same, at most once.
  void AddComparison(std::string subject, ValueId id) {
    if (!check_replicas_ || !compared_.insert(id).second) return;
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
    const BufferId host = NewBuffers(1, info.global.bytes());
    schedule_.buffers[host].place = {Place::Kind::kOutput, o, 0};
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
      aside.first = NewStorage(aside.instances.count(), BytesOf(update.value));
      AddCopy(SubjectOf(update), update.value, values_[update.value], aside);
      sources.back().second = aside;
    }
    for (size_t u = 0; u < sources.size(); ++u) {
      const ValueBuffers& target = values_[local_.arguments()[local_.updates()[u].argument].value];
      const bool in_place = sources[u].second.first == target.first;
      if (!in_place) AddCopy(SubjectOf(local_.updates()[u]), sources[u].first, sources[u].second, target);
    }
  }

  const Graph& local_;
  const bool check_replicas_;
  std::set<ValueId> compared_;
  std::vector<ValueBuffers> values_;  // per value
  std::vector<ValueId> storages_;     // per value the first that lies in its memory
  Schedule schedule_;
};

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(const Graph& local, const std::vector<InstanceMap>& variables,
                                      int workers, bool share, bool check_replicas) {
  ASSIGN_OR_RETURN(Schedule schedule,
                   ScheduleBuilder(local, variables, workers, share, check_replicas).Build());
  PlaceBarriers(schedule);
  PlaceBuffers(schedule);
  const absl::Status checked = CheckSchedule(schedule);
  MESHWORK_CHECK(checked.ok(), "{}", MessageOf(checked));
  return schedule;
}

}  // namespace meshwork
