#include "meshwork/runtime/plan/predict.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "meshwork/ir/program.h"
#include "meshwork/runtime/plan/overlap_clock.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {
namespace {

class PlanClock {
 public:
  PlanClock(const Link& link, double flops) : link_(link), flops_(flops) {}

  void Run(const StepPlan& plan) {
    plan_ = &plan;
    for (const Step& step : plan.steps) std::visit([this](const auto& kind) { Add(kind); }, step);
  }

  StepPrediction Finish() const {
    return {.seconds = clock_.now,
            .compute_seconds = clock_.compute_seconds,
            .remote_seconds = clock_.link_seconds,
            .remote_bytes = remote_bytes_,
            .start_seconds = start_.value_or(clock_.now),
            .waited_seconds = clock_.waited_seconds};
  }

 private:
  void Add(const ComputeStep& step) {
    if (step.once) return;
    clock_.Compute(FlopsOf(*plan_->graph, plan_->graph->nodes()[step.node]) / flops_);
  }

  void Add(const CopyStep&) {}

  void Add(const RemoteStep& step) {
    if (step.kind != RemoteStep::Kind::kWait) Start(step);
    if (step.kind != RemoteStep::Kind::kStart) Wait(step);
  }

  void Start(const RemoteStep& step) {
    if ((step.sends.empty() && step.receives.empty()) || step.is_fence()) return;
    const double bytes = std::max(BytesOf(step.sends), BytesOf(step.receives));
    remote_bytes_ += bytes;
    if (!start_.has_value()) start_ = clock_.now;
    arrives_[step.operation] = clock_.Cross(clock_.now, bytes / link_.bandwidth, link_.latency);
  }

  void Wait(const RemoteStep& step) {
    const auto arrives = arrives_.find(step.operation);
    if (arrives == arrives_.end()) return;
    clock_.WaitUntil(arrives->second);
    arrives_.erase(arrives);
  }

  double BytesOf(const std::vector<RemoteStep::Part>& parts) const {
    double bytes = 0;
    for (const RemoteStep::Part& part : parts)
      bytes += static_cast<double>(plan_->buffers[part.buffer].bytes);
    return bytes;
  }

  // The first two turns of a loop are run; those that follow are like the second. A loop of unknown length runs once.
  // In a branch the body that takes longer is run.
  void Add(const NestedStep& step) {
    switch (step.kind) {
      case NestedStep::Kind::kRepeat: {
        if (step.length < 1) return;
        RunBody(step.bodies[0]);
        if (step.length < 2) return;
        const OverlapClock before = clock_;
        const double bytes_before = remote_bytes_;
        RunBody(step.bodies[0]);
        const auto times = static_cast<double>(step.length - 2);
        clock_.Repeat(before, times);
        remote_bytes_ += times * (remote_bytes_ - bytes_before);
        return;
      }
      case NestedStep::Kind::kWhile:
        for (const StepPlan& body : step.bodies) RunBody(body);
        return;
      case NestedStep::Kind::kBranch: {
        PlanClock longest = *this;
        for (const StepPlan& body : step.bodies) {
          PlanClock chosen = *this;
          chosen.RunBody(body);
          if (chosen.clock_.now > longest.clock_.now) longest = chosen;
        }
        *this = std::move(longest);
        return;
      }
    }
  }

  // Operations that are under way around the body are set aside, because the body numbers its own from 0.
  void RunBody(const StepPlan& body) {
    const StepPlan* const around = plan_;
    std::map<int, double> arrives = std::exchange(arrives_, {});
    Run(body);
    plan_ = around;
    arrives_ = std::move(arrives);
  }

  const StepPlan* plan_ = nullptr;
  Link link_;
  double flops_;
  OverlapClock clock_;  // of the domain and its link
  double remote_bytes_ = 0;
  std::optional<double> start_;    // of the first operation
  std::map<int, double> arrives_;  // by operation
};

}  // namespace

Link LinkBetweenDomains(const Placement& placement, const Topology& topology) {
  const std::vector<Link> links = topology.LinksOf(placement.mesh());
  std::optional<Link> slowest;
  for (int axis : placement.across().ToList())
    slowest = slowest.has_value() ? Slowest(*slowest, links[static_cast<size_t>(axis)])
                                  : links[static_cast<size_t>(axis)];
  return slowest.value_or(Link{.bandwidth = 1, .latency = 0});  // nothing crosses
}

StepPrediction PredictTime(const StepPlan& plan, const Topology& topology) {
  PlanClock clock(LinkBetweenDomains(plan.domain.placement(), topology), topology.flops());
  clock.Run(plan);
  return clock.Finish();
}

}  // namespace meshwork
