#include "meshwork/runtime/plan/plan_cross_device.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <tuple>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/runtime/plan/collective.h"
#include "meshwork/runtime/plan/cross_device.h"

namespace meshwork {
namespace {

// Adds the moves of one algorithm for one pack as transfers, each to the step of its round.
class PlannedMoves : public CrossDeviceMoves {
 public:
  // `transfers`: those of the call, one for each result. `rounds`: the steps of the rounds, shared by all
  // packs.
  PlannedMoves(int node, const CrossDeviceCall& call, std::span<const Transfer> transfers, StepPlan& plan,
               std::vector<CopyStep>& rounds)
      : node_(node), call_(call), transfers_(transfers), plan_(plan), rounds_(rounds) {}

  // The moves that follow are for `count` pieces of `elements` each; the first piece begins at element
  // `first` of the pack.
  void BeginPieces(int64_t first, int64_t elements, int64_t count) {
    first_ = first, piece_ = elements, pieces_ = count;
    round_ = 0;
  }

  void Move(int64_t begin, int64_t end, CrossDevicePlace to,
            std::span<const CrossDevicePlace> from) override {
    if (begin == end) return;
    Transfer transfer;
    transfer.box = BoxCopy::Runs(pieces_, end - begin, first_ + begin, piece_, first_ + begin, piece_);
    transfer.dtype = transfers_[0].dtype;
    transfer.op = transfers_[0].op;
    transfer.to = At(to);
    for (const CrossDevicePlace& place : from) transfer.from.push_back(At(place));
    while (rounds_.size() <= round_) rounds_.push_back({.kind = CopyStep::Kind::kCollective, .node = node_});
    rounds_[round_].Add(std::move(transfer), call_.devices[to.device]);
  }
  void NextRound() override { ++round_; }

 private:
  BufferId At(CrossDevicePlace place) {
    switch (place.kind) {
      case CrossDevicePlace::Kind::kTerm: return transfers_[0].from[place.device];
      case CrossDevicePlace::Kind::kResult: return transfers_[place.device].to;
      case CrossDevicePlace::Kind::kRoom: break;
    }
    const int64_t bytes = transfers_[0].box.elements() * DTypeSize(transfers_[0].dtype);
    if (room_ < 0) room_ = plan_.AddBuffers(1, bytes, plan_.AddStorage({bytes}));
    return room_;
  }

  const int node_;
  const CrossDeviceCall& call_;
  const std::span<const Transfer> transfers_;
  StepPlan& plan_;
  std::vector<CopyStep>& rounds_;
  int64_t first_ = 0, piece_ = 0, pieces_ = 0;
  size_t round_ = 0;
  BufferId room_ = -1;
};

class CrossDevicePlanner {
 public:
  CrossDevicePlanner(int node, const std::vector<ValueBuffers>& values, const CrossDevicePlan& options,
                     StepPlan& plan)
      : n_(node),
        node_(plan.graph->nodes()[static_cast<size_t>(node)]),
        values_(values),
        options_(options),
        group_(plan.graph->mesh(), CollectiveOf(node_).axes),
        plan_(plan),
        before_{.kind = CopyStep::Kind::kCollective, .node = node},
        calls_{.kind = CopyStep::Kind::kCollective, .node = node},
        after_{.kind = CopyStep::Kind::kCollective, .node = node} {
    calls_.in_parts = options.in_parts;
  }

  absl::Status Plan() && {
    for (size_t first = 0; first < node_.results.size();) {
      size_t end = first + 1;
      int64_t bytes = BytesOf(first);
      while (end < node_.results.size() && GoesWith(first, end) &&
             bytes + BytesOf(end) <= options_.bytes_per_pack)
        bytes += BytesOf(end++);
      MESHWORK_RETURN_IF_ERROR(end == first + 1 ? AddTensor(first) : AddPack(first, end, bytes));
      first = end;
    }
    std::vector<CopyStep> rounds;
    if (options_.algorithm != nullptr) MESHWORK_RETURN_IF_ERROR(DescribeCalls(rounds));
    if (!options_.makes_moves) rounds.push_back(std::move(calls_));
    AddStep(std::move(before_));
    for (CopyStep& round : rounds) AddStep(std::move(round));
    AddStep(std::move(after_));
    return absl::OkStatus();
  }

 private:
  void AddStep(CopyStep step) {
    if (!step.transfers.empty()) plan_.steps.emplace_back(std::move(step));
  }

  // Checks the algorithm's moves for the calls and, if the plan makes them, adds them. Error: they are wrong.
  absl::Status DescribeCalls(std::vector<CopyStep>& rounds) {
    for (const CrossDeviceCall& call : calls_.calls) {
      const auto transfers = std::span<const Transfer>(calls_.transfers)
                                 .subspan(static_cast<size_t>(call.first), static_cast<size_t>(call.results));
      const int64_t elements = transfers[0].box.elements();
      const int64_t piece =
          options_.in_parts ? CrossDeviceOps::kPieceBytes / DTypeSize(transfers[0].dtype) : elements;
      PlannedMoves moves(n_, call, transfers, plan_, rounds);
      for (const auto& [first, of_piece, count] :
           {std::tuple(int64_t{0}, piece, elements / piece),
            std::tuple(elements / piece * piece, elements % piece, int64_t{1})}) {
        if (of_piece == 0 || count == 0) continue;
        const CrossDeviceSize size{call.devices.size(), of_piece};
        const CrossDeviceFunction function = static_cast<size_t>(call.results) == size.devices
                                                 ? CrossDeviceFunction::kAllReduce
                                                 : CrossDeviceFunction::kReduce;
        MESHWORK_RETURN_IF_ERROR(Check(function, size));
        if (!options_.makes_moves) continue;
        moves.BeginPieces(first, of_piece, count);
        DescribeMoves(*options_.algorithm, function, size, /*root=*/0, moves);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Check(CrossDeviceFunction function, const CrossDeviceSize& size) const {
    const absl::Status wrong = CheckMoves(*options_.algorithm, function, size, /*root=*/0);
    if (wrong.ok()) return wrong;
    return Annotate(
        wrong, fmt::format("{}: the cross-device op \"{}\", over {}: ", plan_.graph->Describe(n_),
                           options_.algorithm->name(), Count(static_cast<int64_t>(size.devices), "device")));
  }

  const Type& TypeOf(size_t r) const { return plan_.graph->value(node_.results[r]).type; }
  int64_t BytesOf(size_t r) const { return TypeOf(r).bytes(); }
  const ValueBuffers& OperandOf(size_t r) const { return values_[static_cast<size_t>(node_.operands[r])]; }
  const ValueBuffers& ResultOf(size_t r) const { return values_[static_cast<size_t>(node_.results[r])]; }

  bool GoesWith(size_t a, size_t b) const {
    return TypeOf(a).dtype == TypeOf(b).dtype &&
           OperandOf(a).instances.axes() == OperandOf(b).instances.axes() &&
           ResultOf(a).instances.axes() == ResultOf(b).instances.axes();
  }

  absl::Status AddTensor(size_t r) {
    MESHWORK_ASSIGN_OR_RETURN(std::vector<Transfer> transfers,
                              PlanCollective(*plan_.graph, n_, static_cast<int>(r), values_));
    AddCalls(transfers, ResultOf(r));
    return absl::OkStatus();
  }

  // Adds the pack of results [first, end). `bytes`: of all their operands on one device.
  absl::Status AddPack(size_t first, size_t end, int64_t bytes) {
    const ValueBuffers &operand = OperandOf(first), &result = ResultOf(first);
    const ValueBuffers terms = NewPack(operand.instances, bytes), sums = NewPack(result.instances, bytes);
    int64_t offset = 0;
    for (size_t r = first; r < end; ++r) {
      AddCopies(r, OperandOf(r), terms, offset, /*out=*/false);
      AddCopies(r, ResultOf(r), sums, offset, /*out=*/true);
      offset += BytesOf(r);
    }
    MESHWORK_ASSIGN_OR_RETURN(std::vector<Transfer> transfers,
                              PlanCollective(*plan_.graph, n_, static_cast<int>(first), values_));
    for (Transfer& transfer : transfers) {
      transfer.box = BoxCopy::Linear(bytes / DTypeSize(transfer.dtype));
      transfer.to += sums.first - result.first;
      for (BufferId& from : transfer.from) from += terms.first - operand.first;
    }
    AddCalls(transfers, sums);
    return absl::OkStatus();
  }

  ValueBuffers NewPack(const InstanceMap& instances, int64_t bytes) {
    const int64_t count = instances.count();
    return {instances, plan_.AddBuffers(count, bytes, plan_.AddStorage({count * bytes}))};
  }

  // Adds the copies between the instances of tensor r and their places in a pack.
  void AddCopies(size_t r, const ValueBuffers& value, const ValueBuffers& pack, int64_t offset, bool out) {
    for (int64_t i = 0; i < value.instances.count(); ++i) {
      const auto instance = static_cast<BufferId>(i);
      Buffer place = plan_.buffers[static_cast<size_t>(pack.first + instance)];
      place.offset += offset;
      place.bytes = BytesOf(r);
      plan_.buffers.push_back(place);
      const auto in_pack = static_cast<BufferId>(plan_.buffers.size() - 1),
                 by_itself = value.first + instance;
      Transfer transfer;
      transfer.box = BoxCopy::Linear(TypeOf(r).num_elements());
      transfer.dtype = TypeOf(r).dtype;
      transfer.from.push_back(out ? in_pack : by_itself);
      transfer.to = out ? by_itself : in_pack;
      (out ? after_ : before_).Add(std::move(transfer), value.instances.Representative(i));
    }
  }

  // `transfers`: one per instance of `result`. Transfers with the same terms become one call.
  void AddCalls(const std::vector<Transfer>& transfers, const ValueBuffers& result) {
    if (transfers.empty() || transfers[0].box.elements() == 0) return;
    const bool has_own = ResultsAreApart(result.instances);
    for (int64_t i = 0; i < result.instances.count(); ++i) {
      const int64_t device = result.instances.Representative(i);
      if (has_own && group_.RankOf(device) != 0) continue;
      CrossDeviceCall call{.first = static_cast<int>(calls_.transfers.size()),
                           .results = has_own ? static_cast<int>(group_.size()) : 1};
      for (int64_t m = 0; m < group_.size(); ++m) call.devices.push_back(group_.Member(device, m));
      for (int k = 0; k < call.results; ++k) {
        const int64_t of = call.devices[static_cast<size_t>(k)];
        calls_.Add(transfers[static_cast<size_t>(result.instances.Of(of))], of);
      }
      calls_.calls.push_back(std::move(call));
    }
  }

  bool ResultsAreApart(const InstanceMap& instances) const {
    const AxisList axes = CollectiveOf(node_).axes;
    return std::all_of(axes.begin(), axes.end(), [&](int axis) {
      return plan_.graph->mesh().axis(axis).size == 1 || instances.axes().Contains(axis);
    });
  }

  const int n_;
  const Node& node_;
  const std::vector<ValueBuffers>& values_;
  const CrossDevicePlan& options_;
  const AxisGroup group_;
  StepPlan& plan_;
  CopyStep before_, calls_, after_;
};

}  // namespace

absl::Status AddCrossDevice(int node, const std::vector<ValueBuffers>& values, const CrossDevicePlan& options,
                            StepPlan& plan) {
  return CrossDevicePlanner(node, values, options, plan).Plan();
}

}  // namespace meshwork
