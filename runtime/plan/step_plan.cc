#include "meshwork/runtime/plan/step_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/storage.h"
#include "meshwork/ir/readers.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/coalesce.h"
#include "meshwork/runtime/plan/collective.h"
#include "meshwork/runtime/plan/crossing.h"
#include "meshwork/runtime/plan/domain_sums.h"
#include "meshwork/runtime/plan/fence.h"
#include "meshwork/runtime/plan/local_program.h"
#include "meshwork/runtime/plan/loop.h"
#include "meshwork/runtime/plan/messages.h"
#include "meshwork/runtime/plan/plan_cross_device.h"

namespace meshwork {
namespace {

// Values that depend on nothing are kept from step to step, as long as they are small.
constexpr int64_t kMostConstant = 64 << 10, kMostConstants = 1 << 20;  // bytes of one, of all

// Per value: it depends on no argument, and is small.
std::vector<bool> FindConstants(const Graph& local, const Domain& domain) {
  std::vector<bool> constant(local.values().size(), false);
  int64_t all = 0;  // bytes
  for (const Node& node : local.nodes()) {
    bool is_constant = node.row->kind != OpKind::kCollective && !IsControl(node);
    for (ValueId operand : node.operands) is_constant &= constant[operand];
    int64_t bytes = 0;
    for (ValueId result : node.results) bytes += local.value(result).type.bytes() * domain.num_devices();
    is_constant &= bytes <= kMostConstant && all + bytes <= kMostConstants;
    if (is_constant) all += bytes;
    for (ValueId result : node.results) constant[result] = is_constant;
  }
  return constant;
}

class StepPlanner {
 public:
  StepPlanner(std::shared_ptr<const Graph> local, const std::vector<InstanceMap>& variables,
              const StepPlanOptions& options)
      : local_(*local),
        options_(options),
        domain_(options.domain.value_or(Domain(local->mesh()))),
        kept_(KeptVariables(*local, options)),
        constant_(FindConstants(*local, domain_)),
        values_(local->values().size()) {
    plan_.graph = std::move(local);
    plan_.domain = domain_;
    FindInstances(variables);
    storages_ = PlanStorages(
        local_,
        [this](ValueId a, ValueId b) {
          return values_[a].instances.axes() == values_[b].instances.axes() && !constant_[a] && !constant_[b];
        },
        kept_);
  }

  absl::StatusOr<StepPlan> Build() && {
    FindCrossings();
    BeginFence();
    for (size_t a = 0; a < local_.arguments().size(); ++a) {
      AddArgument(static_cast<int>(a));
      MarkMade(local_.arguments()[a].value);
    }
    MESHWORK_RETURN_IF_ERROR(BeginReady());
    for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) {
      MESHWORK_RETURN_IF_ERROR(AddNode(n));
      EndFence(n);
      for (ValueId result : local_.nodes()[n].results) MarkMade(result);
      MESHWORK_RETURN_IF_ERROR(BeginReady());
    }
    for (size_t o = 0; o < local_.outputs().size(); ++o) AddOutput(static_cast<int>(o));
    AddAssignments();
    GuardSpares();
    return std::move(plan_);
  }

 private:
  void FindInstances(const std::vector<InstanceMap>& variables) {
    std::vector<AxisSet> arguments;  // what is fed is shared anyway
    for (size_t a = 0; a < local_.arguments().size(); ++a)
      arguments.push_back(local_.arguments()[a].is_variable || options_.arguments_are_bound
                              ? variables[a].varying()
                              : local_.value(local_.arguments()[a].value).layout->ShardedAxes());
    std::optional<AxisSet> own_results;
    if (options_.cross_device.has_value()) own_results = domain_.placement().across();
    const std::vector<AxisSet> varying = VaryingAxes(local_, arguments, options_.share, own_results);
    for (size_t v = 0; v < varying.size(); ++v) values_[v].instances = InstanceMap(domain_, varying[v]);
    if (!domain_.is_only()) crossings_.emplace(local_, domain_, varying, options_.latency_bytes);
  }

  // ---- Storages.

  // A storage of its own for all instances of a value.
  BufferId NewValue(ValueId id, Storage::Kind kind = Storage::Kind::kTemporary, int index = 0) {
    const int64_t count = values_[id].instances.count(), bytes = local_.value(id).type.bytes();
    return plan_.AddBuffers(count, bytes, plan_.AddStorage({count * bytes, kind, index}));
  }

  // Gives a result its buffers: those of the value it is written over, or new ones.
  void PlaceResult(ValueId result) {
    const ValueId first = storages_[result];
    if (first != result) values_[result].first = values_[first].first;
    else
      values_[result].first =
          NewValue(result, constant_[result] ? Storage::Kind::kConstant : Storage::Kind::kTemporary);
  }

  // ---- Blocks.

  BoxBuffer BoxOf(ValueId value, int64_t device) const {
    return BoxBuffer::OfDevice(*local_.value(value).layout, local_.value(value).global.shape, device);
  }
  BoxBuffer HostBox(ValueId value) const {
    const ValueInfo& info = local_.value(value);
    return BoxBuffer::Whole(info.layout->FactorShape(info.global.shape));
  }
  Block BlockOf(ValueId value, int64_t device) const {
    return local_.value(value).layout->BlockOf(local_.value(value).global.shape, device);
  }

  // ---- Arguments.

  void AddArgument(int a) {
    const Argument& argument = local_.arguments()[a];
    if (argument.is_variable || options_.arguments_are_bound)
      values_[argument.value].first = NewValue(argument.value, Storage::Kind::kVariable, a);
    else if (options_.distributed.contains(local_.value(argument.value).name))
      values_[argument.value].first = NewValue(argument.value, Storage::Kind::kFeed, a);
    else AddFeed(a);
  }

  // The host tensor is viewed if kernels can read it and the blocks lie in it one behind the other; otherwise it is
  // packed.
  void AddFeed(int a) {
    const ValueId id = local_.arguments()[a].value;
    const ValueInfo& info = local_.value(id);
    ValueBuffers& value = values_[id];
    const int64_t count = value.instances.count(), bytes = info.type.bytes();
    const int host_storage = plan_.AddStorage({info.global.bytes(), Storage::Kind::kHostFeed, a});
    bool is_viewed = options_.host_is_read;
    for (int64_t i = 0; i < count && is_viewed; ++i)
      is_viewed = ViewOffset(id, value.instances.Representative(i)) == i * bytes;
    if (is_viewed) {
      value.first = plan_.AddBuffers(count, bytes, host_storage);
      return;
    }
    value.first = NewValue(id);
    const BufferId host = plan_.AddBuffers(1, info.global.bytes(), host_storage);
    CopyStep pack{.kind = CopyStep::Kind::kPack, .subject = fmt::format("input \"{}\"", info.name)};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t device = value.instances.Representative(i);
      Transfer transfer;
      transfer.box = BoxCopy(BlockOf(id, device), HostBox(id), BoxOf(id, device));
      transfer.dtype = info.type.dtype;
      transfer.from.push_back(host);
      transfer.to = static_cast<BufferId>(value.first + i);
      pack.Add(std::move(transfer), device);
    }
    if (!pack.transfers.empty()) plan_.steps.emplace_back(std::move(pack));
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
    if (IsControl(node)) return AddNested(n);
    if (node.row->kind == OpKind::kCollective) return AddCollective(n);
    AddCompute(n);
    return absl::OkStatus();
  }

  // Whether devices of several domains are in one group of a collective.
  bool Crosses(const Node& node) const { return MovesOver(local_, node, domain_.placement().across()); }

  absl::Status AddCollective(int n) {
    const Node& node = local_.nodes()[n];
    if (Crosses(node)) return AddCrossing(n);
    for (ValueId result : node.results) PlaceResult(result);
    if (options_.cross_device.has_value() && node.row->collective == CollectiveKind::kAllReduce)
      return AddCrossDevice(n, values_, *options_.cross_device, plan_);
    CopyStep copies{.kind = CopyStep::Kind::kCollective, .node = n};
    for (size_t r = 0; r < node.results.size(); ++r) {
      MESHWORK_ASSIGN_OR_RETURN(std::vector<Transfer> more,
                                PlanCollective(local_, n, static_cast<int>(r), values_));
      const ValueBuffers& result = values_[node.results[r]];
      for (Transfer& transfer : more) {
        copies.devices.push_back(result.instances.Representative(transfer.to - result.first));
        copies.transfers.push_back(std::move(transfer));
      }
    }
    plan_.steps.emplace_back(std::move(copies));
    return absl::OkStatus();
  }

  // ---- Collectives across domains. A collective begins as soon as it can, and ends at its place in the program. The
  // order is the same in all domains, because it depends only on the program. Nothing writes an operand in between,
  // because the program reads the operand at that place.

  void FindCrossings() {
    if (domain_.is_only()) return;
    waits_.resize(local_.nodes().size(), 0);
    for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) {
      const Node& node = local_.nodes()[n];
      if (node.row->kind != OpKind::kCollective || !Crosses(node)) continue;
      waits_[n] = static_cast<int>(node.operands.size());
    }
  }

  void MarkMade(ValueId value) {
    if (waits_.empty()) return;
    for (const auto [n, i] : readers_[value])
      if (waits_[n] > 0 && --waits_[n] == 0) ready_.insert(n);
  }

  int64_t BytesUnderWay(int n) const {
    int64_t in = 0, out = 0;
    for (ValueId operand : local_.nodes()[n].operands) in += local_.value(operand).type.bytes();
    for (ValueId result : local_.nodes()[n].results) out += local_.value(result).type.bytes();
    return std::max(in, out);
  }

  // Begins collectives whose operands are there, before the program comes to them.
  absl::Status BeginReady() {
    while (!ready_.empty() && MayBeginEarly(*ready_.begin()) &&
           under_way_bytes_ + BytesUnderWay(*ready_.begin()) <= options_.bytes_under_way)
      MESHWORK_RETURN_IF_ERROR(Begin(*ready_.begin()));
    return absl::OkStatus();
  }

  bool IsSumOfDomains(int n) const {
    return options_.sums_domains && IsDomainSum(local_, n, domain_.placement(), values_);
  }
  // A sum of domains writes its results as soon as it begins, so it needs memory of its own to begin early.
  bool MayBeginEarly(int n) const { return HasMemoryOfItsOwn(n) || !IsSumOfDomains(n); }

  absl::Status Begin(int n) {
    ready_.erase(n);
    for (ValueId result : local_.nodes()[n].results) PlaceResult(result);
    UnderWay begun;
    if (IsSumOfDomains(n)) {
      begun.steps = PlanDomainSum(n, values_, plan_);
    } else {
      MESHWORK_ASSIGN_OR_RETURN(Crossing crossing, crossings_->Plan(n, values_));
      begun.has_two_rounds = crossing.takes_two_rounds;
      begun.steps = PlanMessages(n, std::move(crossing), values_, plan_);
    }
    under_way_bytes_ += BytesUnderWay(n);
    AddRemote(begun.steps.begin);
    under_way_.emplace(n, std::move(begun));
    return absl::OkStatus();
  }

  absl::Status AddCrossing(int n) {
    if (!under_way_.contains(n)) MESHWORK_RETURN_IF_ERROR(Begin(n));
    AddMiddle(n);
    // Starts the second round of the next collective, so that it is under way while the results of this one are used.
    if (const auto next = under_way_.upper_bound(n);
        next != under_way_.end() && next->second.has_two_rounds && HasMemoryOfItsOwn(next->first))
      AddMiddle(next->first);
    AddRemote(under_way_.at(n).steps.end);
    under_way_bytes_ -= BytesUnderWay(n);
    under_way_.erase(n);
    return absl::OkStatus();
  }

  void AddMiddle(int n) {
    AddRemote(under_way_.at(n).steps.middle);
    under_way_.at(n).steps.middle.clear();
  }

  // Whether the results of node `n` may be written before the program comes to it.
  bool HasMemoryOfItsOwn(int n) const {
    const auto& results = local_.nodes()[n].results;
    return std::all_of(results.begin(), results.end(),
                       [&](ValueId result) { return storages_[result] == result; });
  }

  // Adds the steps; an operation that is waited for right after its start becomes one step.
  void AddRemote(std::vector<Step>& steps) {
    for (Step& step : steps) {
      const auto* const wait = std::get_if<RemoteStep>(&step);
      auto* const last = plan_.steps.empty() ? nullptr : std::get_if<RemoteStep>(&plan_.steps.back());
      if (wait != nullptr && wait->kind == RemoteStep::Kind::kWait && last != nullptr &&
          last->kind == RemoteStep::Kind::kStart && last->operation == wait->operation)
        last->kind = RemoteStep::Kind::kRun;
      else plan_.steps.push_back(std::move(step));
    }
  }

  // ---- Variables that keep their old values, and the fence.

  static std::vector<bool> KeptVariables(const Graph& local, const StepPlanOptions& options) {
    if (!options.atomic || options.arguments_are_bound) return {};
    std::vector<bool> kept;
    for (const Argument& argument : local.arguments())
      kept.push_back(argument.is_variable && !options.distributed.contains(local.value(argument.value).name));
    return kept;
  }

  bool IsKept(int argument) const { return !kept_.empty() && kept_[static_cast<size_t>(argument)]; }
  // Whether a variable that is kept gets a new value.
  bool IsChanged(const VariableUpdate& update) const {
    return IsKept(update.argument) && update.value != local_.arguments()[update.argument].value;
  }

  void BeginFence() {
    const auto& updates = local_.updates();
    const auto changed = [this](const VariableUpdate& update) { return IsChanged(update); };
    if (domain_.is_only() || std::none_of(updates.begin(), updates.end(), changed)) return;
    plan_.steps.emplace_back(NewFence(plan_));
    fenced_by_ = FirstCrossing(local_, domain_.placement().across());
    if (!fenced_by_.has_value()) std::get<RemoteStep>(plan_.steps[0]).kind = RemoteStep::Kind::kRun;
    fence_ends_ = 0;
  }

  // Adds the wait for the fence if it comes behind node `n`.
  void EndFence(int n) {
    if (!fence_ends_.has_value() || fenced_by_ != n) return;
    written_early_ = StoragesWritten(plan_);
    fence_ends_ = plan_.steps.size();
    RemoteStep fence = std::get<RemoteStep>(plan_.steps[0]);
    fence.kind = RemoteStep::Kind::kWait;
    plan_.steps.emplace_back(std::move(fence));
  }

  void GuardSpares() {
    if (!fence_ends_.has_value()) return;
    std::vector<int> spares;
    for (size_t s = 0; s < plan_.storages.size(); ++s)
      if (plan_.storages[s].kind == Storage::Kind::kSpare) spares.push_back(static_cast<int>(s));
    for (size_t step : {size_t{0}, *fence_ends_}) std::get<RemoteStep>(plan_.steps[step]).guarded = spares;
  }

  // Whether the node is a view whose result lies in the operand's memory.
  bool IsView(const Node& node) const {
    return node.row->is_view && storages_[node.results[0]] == storages_[node.operands[0]];
  }

  void AddCompute(int n) {
    const Node& node = local_.nodes()[n];
    if (IsView(node)) return PlaceResult(node.results[0]);
    std::optional<ComputeStep> reducing = MakeReducing(n);
    ComputeStep step = reducing.has_value() ? *std::move(reducing)
                                            : MakeComputeStep(local_, n, values_, options_.coalesces());
    if (step.reduces >= 0) reduced_ = step.reduces;
    const std::span<const ValueId> results =
        step.reduces >= 0 ? std::span<const ValueId>(local_.nodes()[step.reduces].results) : node.results;
    for (ValueId result : results) PlaceResult(result);
    for (ValueId operand : node.operands) step.in.push_back(values_[operand]);
    for (ValueId result : results) step.out.push_back(values_[result]);
    step.needed = NeededItems(step);
    step.once = step.reduces < 0 && constant_[node.results[0]];
    plan_.steps.emplace_back(std::move(step));
  }

  // The last devices compute nothing if their blocks are empty: from their padding a reduction reads only what
  // mask_padding, or a reshape of its result, leaves there, and these nodes are always computed.
  int64_t NeededItems(const ComputeStep& step) const {
    const Node& node = local_.nodes()[step.node];
    int64_t count = step.items.count();
    if (step.reduces >= 0 || node.row->is_view || node.row->name == "mask_padding") return count;
    // If all blocks here are empty, another domain may still have a block of the same instance that is not; readers of
    // the instance read that block here. The first device of the mesh that holds the instance has the largest.
    const InstanceMap everywhere(Domain(local_.mesh()), step.items.varying());
    const auto is_empty = [&](int64_t item) {
      const int64_t device = everywhere.Representative(everywhere.Of(step.items.Representative(item)));
      return std::all_of(node.results.begin(), node.results.end(),
                         [&](ValueId result) { return NumElements(BlockOf(result, device)) == 0; });
    };
    while (count > 0 && is_empty(count - 1)) --count;
    return count;
  }

  // The step in which node `n` also makes the sums of the next node (MakeReducingStep); nullopt if it cannot, or if the
  // sums lie in an operand's memory.
  std::optional<ComputeStep> MakeReducing(int n) const {
    if (!options_.coalesces() || options_.cross_device.has_value() ||
        n + 1 >= static_cast<int>(local_.nodes().size()))
      return std::nullopt;
    const Node &node = local_.nodes()[n], &next = local_.nodes()[n + 1];
    if (next.row->collective == CollectiveKind::kNone || Crosses(next)) return std::nullopt;
    if (node.results.size() != 1 || !readers_.IsReadOnce(node.results[0])) return std::nullopt;
    for (ValueId operand : node.operands)
      if (!next.results.empty() && storages_[operand] == storages_[next.results[0]]) return std::nullopt;
    return MakeReducingStep(local_, n, n + 1, values_);
  }

  // ---- Loops and branches.

  absl::Status AddNested(int n) {
    const Node& node = local_.nodes()[n];
    const LoweredLoop lowered = LoweredLoopOf(node);
    for (ValueId result : node.results) PlaceResult(result);
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (lowered.initial[r] < 0) continue;
      const ValueId operand = node.operands[lowered.initial[r]];
      const ValueBuffers &from = values_[operand], &to = values_[node.results[r]];
      if (from.first != to.first) AddCopy(local_.Describe(n), operand, from, to);
    }
    NestedStep nested{.node = n};
    if (node.row->control == ControlKind::kScan) {
      nested.kind = NestedStep::Kind::kRepeat;
      nested.length = node.attrs.Get<int64_t>("length");
    } else if (node.row->control == ControlKind::kWhile) {
      nested.kind = NestedStep::Kind::kWhile;
      nested.predicate = values_[node.results[0]].first;
    } else {
      nested.kind = NestedStep::Kind::kBranch;
      nested.predicate = values_[node.operands[0]].first;
    }
    for (ValueId id : node.operands) nested.in.push_back(values_[id]);
    for (ValueId id : node.results) nested.out.push_back(values_[id]);
    // Every argument lies in memory that exists already, as variables do.
    std::vector<ValueBuffers> arguments = nested.out;
    arguments.insert(arguments.end(), nested.in.begin() + lowered.first_read, nested.in.end());
    for (const ValueBuffers& argument : arguments) nested.arguments.push_back(argument.first);
    for (const auto& region : node.regions) {
      MESHWORK_ASSIGN_OR_RETURN(StepPlan body, PlanBody(region, arguments));
      nested.bodies.push_back(std::move(body));
    }
    plan_.steps.emplace_back(std::move(nested));
    return absl::OkStatus();
  }

  absl::StatusOr<StepPlan> PlanBody(std::shared_ptr<const Graph> region,
                                    const std::vector<ValueBuffers>& arguments) const {
    std::vector<InstanceMap> instances;
    for (const ValueBuffers& argument : arguments) instances.push_back(argument.instances);
    StepPlanOptions options = options_;
    options.check_replicas = false;
    options.atomic = false;
    options.arguments_are_bound = true;
    return BuildStepPlan(std::move(region), instances, options);
  }

  // ---- The end of the step.

  // Compares the instances of a value that its layout says are the same, at most once.
  void AddComparison(std::string subject, ValueId id) {
    if (!options_.check_replicas || !compared_.insert(id).second) return;
    const ValueBuffers& value = values_[id];
    const AxisSet sharded = local_.value(id).layout->ShardedAxes();
    const InstanceMap blocks(domain_, sharded), all(domain_, sharded.Union(value.instances.axes()));
    CopyStep compare{.kind = CopyStep::Kind::kCompare, .subject = std::move(subject), .value = id};
    for (int64_t i = 0; i < all.count(); ++i) {
      const int64_t device = all.Representative(i), first = blocks.Representative(blocks.Of(device));
      if (value.Of(first) == value.Of(device)) continue;
      Transfer transfer;
      transfer.box = BoxCopy(BlockOf(id, device), BoxOf(id, device), BoxOf(id, device));
      transfer.dtype = local_.value(id).type.dtype;
      transfer.from = {value.Of(first), value.Of(device)};
      if (transfer.box.elements() > 0) compare.replicas.emplace_back(first, device);
      compare.Add(std::move(transfer), device);
    }
    if (!compare.transfers.empty()) plan_.steps.emplace_back(std::move(compare));
  }

  void AddOutput(int o) {
    const ValueId id = local_.outputs()[o].value;
    const std::string subject = fmt::format("output \"{}\"", OutputName(local_, o));
    AddComparison(subject, id);
    if (options_.kept.contains(OutputName(local_, o))) return;
    const ValueInfo& info = local_.value(id);
    if (options_.distributed.contains(OutputName(local_, o))) return AddDistributed(o, subject);
    const int64_t bytes = info.global.bytes();
    const BufferId host =
        plan_.AddBuffers(1, bytes, plan_.AddStorage({bytes, Storage::Kind::kHostOutput, o}));
    CopyStep unpack{.kind = CopyStep::Kind::kUnpack, .subject = subject};
    const InstanceMap blocks(domain_, info.layout->ShardedAxes());
    for (int64_t i = 0; i < blocks.count(); ++i) {
      const int64_t device = blocks.Representative(i);
      Transfer transfer;
      transfer.box = BoxCopy(BlockOf(id, device), BoxOf(id, device), HostBox(id));
      transfer.dtype = info.type.dtype;
      transfer.from.push_back(values_[id].Of(device));
      transfer.to = host;
      unpack.Add(std::move(transfer), device);
    }
    plan_.steps.emplace_back(std::move(unpack));
  }

  // An output that is a DTensor. If the value has a temporary storage of its own with the form of the DTensor, it is
  // computed in the DTensor; otherwise it is copied.
  void AddDistributed(int o, const std::string& subject) {
    const ValueId id = local_.outputs()[o].value;
    ValueBuffers target{InstanceMap(domain_, local_.value(id).layout->ShardedAxes())};
    Storage& lies = plan_.storages[plan_.buffers[values_[id].first].storage];
    if (lies.kind == Storage::Kind::kTemporary && target.instances.axes() == values_[id].instances.axes() &&
        lies.bytes == plan_.BytesOf(values_[id])) {
      lies.kind = Storage::Kind::kOutput;
      lies.index = o;
      return;
    }
    const int64_t count = target.instances.count(), bytes = local_.value(id).type.bytes();
    target.first =
        plan_.AddBuffers(count, bytes, plan_.AddStorage({count * bytes, Storage::Kind::kOutput, o}));
    AddCopy(subject, id, values_[id], target);
  }

  // Copies one value's buffers to another's, instance by instance of the target.
  void AddCopy(std::string subject, ValueId from_id, const ValueBuffers& from, const ValueBuffers& to) {
    CopyStep copies{.kind = CopyStep::Kind::kAssign, .subject = std::move(subject)};
    for (int64_t i = 0; i < to.instances.count(); ++i) {
      const int64_t device = to.instances.Representative(i);
      Transfer transfer;
      transfer.box = BoxCopy::Linear(local_.value(from_id).type.num_elements());
      transfer.dtype = local_.value(from_id).type.dtype;
      transfer.from.push_back(from.Of(device));
      transfer.to = to.Of(device);
      copies.transfers.push_back(std::move(transfer));
      copies.devices.push_back(device);
    }
    plan_.steps.emplace_back(std::move(copies));
  }

  std::string SubjectOf(const VariableUpdate& update) const {
    return fmt::format("variable \"{}\"", local_.argument_name(update.argument));
  }

  // Adds the updates that were not written in place. A value that one update overwrites and another still needs (two
  // variables that swap) is set aside first.
  void AddAssignments() {
    for (const VariableUpdate& update : local_.updates()) AddComparison(SubjectOf(update), update.value);
    std::vector<std::pair<ValueId, ValueBuffers>> sources;  // per update
    const std::vector<bool> is_set_aside = SetAside(local_);
    for (const VariableUpdate& update : local_.updates()) {
      sources.emplace_back(update.value, values_[update.value]);
      if (!is_set_aside[sources.size() - 1] || IsKeptValue(update.value)) continue;
      ValueBuffers aside = values_[update.value];
      aside.first = NewValue(update.value);
      AddCopy(SubjectOf(update), update.value, values_[update.value], aside);
      sources.back().second = aside;
    }
    for (size_t u = 0; u < sources.size(); ++u) {
      const ValueBuffers& target = values_[local_.arguments()[local_.updates()[u].argument].value];
      const bool in_place = sources[u].second.first == target.first;
      if (in_place) continue;
      const VariableUpdate& update = local_.updates()[u];
      if (IsKept(update.argument)) AddSpare(update, sources[u].second);
      else AddCopy(SubjectOf(update), sources[u].first, sources[u].second, target);
    }
  }

  // Whether `value` is the old value of an updated variable that is kept.
  bool IsKeptValue(ValueId value) const {
    return std::any_of(local_.updates().begin(), local_.updates().end(), [&](const VariableUpdate& update) {
      return local_.arguments()[update.argument].value == value && IsKept(update.argument);
    });
  }

  // The new value of a variable that is kept. If it has a temporary storage of its own with the form of the spare, and
  // nothing writes that storage before the fence has ended, it is computed in the spare; otherwise it is copied.
  void AddSpare(const VariableUpdate& update, const ValueBuffers& from) {
    ValueBuffers target = values_[local_.arguments()[update.argument].value];
    const int lies = plan_.buffers[from.first].storage;
    Storage& storage = plan_.storages[static_cast<size_t>(lies)];
    if (storage.kind == Storage::Kind::kTemporary && target.instances.axes() == from.instances.axes() &&
        storage.bytes == plan_.BytesOf(from) && !written_early_.contains(lies)) {
      storage.kind = Storage::Kind::kSpare;
      storage.index = update.argument;
      return;
    }
    const int64_t count = target.instances.count(), bytes = local_.value(update.value).type.bytes();
    target.first = plan_.AddBuffers(
        count, bytes, plan_.AddStorage({count * bytes, Storage::Kind::kSpare, update.argument}));
    AddCopy(SubjectOf(update), update.value, from, target);
  }

  const Graph& local_;  // the plan's
  const StepPlanOptions options_;
  const Domain domain_;
  const std::vector<bool> kept_;      // per argument: a variable whose old value stays; empty: none
  const std::vector<bool> constant_;  // per value
  const Readers readers_ = ReadersOf(local_);
  std::set<ValueId> compared_;
  std::vector<ValueBuffers> values_;  // per value
  std::vector<ValueId> storages_;     // per value the first that lies in its memory
  // A collective across domains that has begun and not ended.
  struct UnderWay {
    CrossingSteps steps;  // without the steps that were added to the plan
    bool has_two_rounds = false;
  };
  std::optional<CrossingPlanner> crossings_;  // unless there is one domain
  std::vector<int> waits_;                    // per node across domains: operands that are not made yet
  std::set<int> ready_;                       // nodes that have all operands and have not begun
  std::map<int, UnderWay> under_way_;         // by node
  int64_t under_way_bytes_ = 0;
  std::optional<size_t> fence_ends_;  // the step that waits for the fence; none without a fence
  std::optional<int> fenced_by_;      // the node behind which it stands; none: it is the start
  std::set<int> written_early_;       // storages that are written before the fence ends
  int reduced_ = -1;                  // the last collective that the compute step before it made
  StepPlan plan_;
};

}  // namespace

void CopyStep::Add(Transfer transfer, int64_t device) {
  if (transfer.box.elements() == 0) return;
  transfers.push_back(std::move(transfer));
  devices.push_back(device);
}

int StepPlan::AddStorage(const Storage& storage) {
  storages.push_back(storage);
  return static_cast<int>(storages.size()) - 1;
}

BufferId StepPlan::AddBuffers(int64_t count, int64_t bytes, int storage) {
  const auto first = static_cast<BufferId>(buffers.size());
  for (int64_t i = 0; i < count; ++i) buffers.push_back({bytes, storage, i * bytes});
  return first;
}

absl::StatusOr<StepPlan> BuildStepPlan(std::shared_ptr<const Graph> local,
                                       const std::vector<InstanceMap>& variables,
                                       const StepPlanOptions& options) {
  return StepPlanner(std::move(local), variables, options).Build();
}

}  // namespace meshwork
