#include "meshwork/runtime/plan/fence.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/crossing.h"
#include "meshwork/runtime/plan/local_program.h"

namespace meshwork {
namespace {

bool HasCrossing(const Graph& local, const Node& node, AxisSet across) {
  if (node.row->kind == OpKind::kCollective) return MovesOver(local, node, across);
  return std::any_of(node.regions.begin(), node.regions.end(),
                     [&](const auto& region) { return FirstCrossing(*region, across).has_value(); });
}

class Written {
 public:
  explicit Written(const StepPlan& plan) : plan_(plan) {
    for (const Step& step : plan.steps) std::visit([this](const auto& kind) { Add(kind); }, step);
  }
  std::set<int> storages() && { return std::move(storages_); }

 private:
  void Add(const ComputeStep& step) { Add(step.out); }
  void Add(const NestedStep& step) { Add(step.out); }
  void Add(const CopyStep& step) {
    for (const Transfer& transfer : step.transfers) Add(transfer.to);
  }
  void Add(const RemoteStep& step) {
    for (const RemoteStep::Part& part : step.receives) Add(part.buffer);
  }
  void Add(const std::vector<ValueBuffers>& values) {
    for (const ValueBuffers& value : values) Add(value.first);
  }
  void Add(BufferId buffer) {
    if (buffer >= 0) storages_.insert(plan_.buffers[static_cast<size_t>(buffer)].storage);
  }

  const StepPlan& plan_;
  std::set<int> storages_;
};

}  // namespace

std::optional<int> FirstCrossing(const Graph& local, AxisSet across) {
  for (size_t n = 0; n < local.nodes().size(); ++n)
    if (HasCrossing(local, local.nodes()[n], across)) return static_cast<int>(n);
  return std::nullopt;
}

RemoteStep NewFence(StepPlan& plan) {
  RemoteStep fence{.kind = RemoteStep::Kind::kStart, .operation = plan.num_operations++};
  const int64_t domains = plan.domain.placement().num_domains();
  const BufferId sent = plan.AddBuffers(1, 1, plan.AddStorage({1, Storage::Kind::kConstant}));
  BufferId received = plan.AddBuffers(domains - 1, 1, plan.AddStorage({domains - 1}));
  for (int64_t other = 0; other < domains; ++other) {
    if (other == plan.domain.index()) continue;
    fence.sends.push_back({other, sent});
    fence.receives.push_back({other, received++});
  }
  return fence;
}

std::set<int> StoragesWritten(const StepPlan& plan) { return Written(plan).storages(); }

}  // namespace meshwork
