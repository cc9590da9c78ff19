#include "meshwork/runtime/plan/predict.h"

#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "meshwork/ir/program_cost.h"
#include "meshwork/runtime/plan/step_clock.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {
namespace {

// A plan as items.
class PlanItems {
 public:
  PlanItems(const StepPlan& plan, const Link& link, double flops) : plan_(plan), link_(link), flops_(flops) {
    for (const Step& step : plan.steps) std::visit([this](const auto& kind) { Add(kind); }, step);
  }

  std::vector<StepItem> Take() { return std::move(items_); }

 private:
  void Add(const ComputeStep& step) {
    if (step.once) return;
    items_.push_back({.seconds = FlopsOf(*plan_.graph, plan_.graph->nodes()[step.node]) / flops_});
  }

  void Add(const CopyStep&) {}

  void Add(const RemoteStep& step) {
    if (step.kind == RemoteStep::Kind::kWait) {
      if (const auto start = starts_.find(step.operation); start != starts_.end())
        items_.push_back({.reads = {start->second}});
      return;
    }
    if ((step.sends.empty() && step.receives.empty()) || step.is_fence()) return;
    starts_[step.operation] = static_cast<int>(items_.size());
    items_.push_back(CrossingItem(BytesCrossing(plan_.buffers, step.sends, step.receives), link_,
                                  /*waits=*/step.kind == RemoteStep::Kind::kRun));
  }

  void Add(const NestedStep& step) {
    StepItem item = NestedItem(step.kind, step.length);
    if (item.times < 1) return;
    for (const StepPlan& body : step.bodies) item.bodies.push_back(PlanItems(body, link_, flops_).Take());
    items_.push_back(std::move(item));
  }

  const StepPlan& plan_;
  const Link link_;
  const double flops_;
  std::vector<StepItem> items_;
  std::map<int, int> starts_;  // items that start operations, by operation
};

}  // namespace

StepPrediction PredictTime(const StepPlan& plan, const Topology& topology) {
  const Link link = LinkBetweenDomains(plan.domain.placement(), topology);
  const OverlapClock end = TimeItems(PlanItems(plan, link, topology.flops()).Take()).clock;
  return {.seconds = end.now,
          .compute_seconds = end.compute_seconds,
          .remote_seconds = end.link_seconds,
          .remote_bytes = end.link_bytes,
          .start_seconds = end.first_sent.value_or(end.now),
          .waited_seconds = end.waited_seconds};
}

}  // namespace meshwork
