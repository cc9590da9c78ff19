#include "meshwork/runtime/predict.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "meshwork/ir/program.h"
#include "meshwork/runtime/step_plan.h"

namespace meshwork {
namespace {

// The link over the slowest axis that leaves a domain.
Link LinkBetweenDomains(const StepPlan& plan, const Topology& topology) {
  const std::vector<Link> links = topology.LinksOf(plan.graph->mesh());
  std::optional<Link> slowest;
  for (int axis : plan.domain.placement().across().ToList())
    slowest = slowest.has_value() ? Slowest(*slowest, links[static_cast<size_t>(axis)])
                                  : links[static_cast<size_t>(axis)];
  return slowest.value_or(Link{.bandwidth = 1, .latency = 0});  // nothing crosses
}

class Clock {
 public:
  Clock(const Link& link, double flops) : link_(link), flops_(flops) {}

  void Run(const StepPlan& plan) {
    plan_ = &plan;
    for (const Step& step : plan.steps) std::visit([this](const auto& kind) { Add(kind); }, step);
  }

  StepPrediction Finish() const {
    StepPrediction finished = prediction_;
    finished.seconds = now_;
    finished.start_seconds = start_.value_or(now_);
    return finished;
  }

 private:
  void Add(const ComputeStep& step) {
    if (step.once) return;
    const double seconds = FlopsOf(*plan_->graph, plan_->graph->nodes()[step.node]) / flops_;
    now_ += seconds;
    prediction_.compute_seconds += seconds;
  }

  void Add(const CopyStep&) {}

  void Add(const RemoteStep& step) {
    if (step.kind != RemoteStep::Kind::kWait) Start(step);
    if (step.kind != RemoteStep::Kind::kStart) Wait(step);
  }

  void Start(const RemoteStep& step) {
    if ((step.sends.empty() && step.receives.empty()) || step.is_fence()) return;
    const double bytes = std::max(BytesOf(step.sends), BytesOf(step.receives)),
                 seconds = bytes / link_.bandwidth;
    prediction_.remote_bytes += bytes;
    if (!start_.has_value()) start_ = now_;
    free_ = std::max(now_, free_) + seconds;
    arrives_[step.operation] = free_ + link_.latency;
    prediction_.remote_seconds += link_.latency + seconds;
  }

  void Wait(const RemoteStep& step) {
    const auto arrives = arrives_.find(step.operation);
    if (arrives == arrives_.end()) return;
    prediction_.waited_seconds += std::max(0.0, arrives->second - now_);
    now_ = std::max(now_, arrives->second);
    arrives_.erase(arrives);
  }

  double BytesOf(const std::vector<RemoteStep::Part>& parts) const {
    double bytes = 0;
    for (const RemoteStep::Part& part : parts)
      bytes += static_cast<double>(plan_->buffers[part.buffer].bytes);
    return bytes;
  }

  // The first two turns of a loop are run; those that follow are like the second. A loop of unknown length runs once. Of
  // a branch, the body that takes longer is run.
  void Add(const NestedStep& step) {
    switch (step.kind) {
      case NestedStep::Kind::kRepeat: {
        if (step.length < 1) return;
        RunBody(step.bodies[0]);
        if (step.length < 2) return;
        const Clock before = *this;
        RunBody(step.bodies[0]);
        Repeat(before, static_cast<double>(step.length - 2));
        return;
      }
      case NestedStep::Kind::kWhile:
        for (const StepPlan& body : step.bodies) RunBody(body);
        return;
      case NestedStep::Kind::kBranch: {
        Clock longest = *this;
        for (const StepPlan& body : step.bodies) {
          Clock chosen = *this;
          chosen.RunBody(body);
          if (chosen.now_ > longest.now_) longest = chosen;
        }
        *this = std::move(longest);
        return;
      }
    }
  }

  // What is under way around the body has other numbers than what the body starts.
  void RunBody(const StepPlan& body) {
    const StepPlan* const around = plan_;
    std::map<int, double> arrives = std::exchange(arrives_, {});
    Run(body);
    plan_ = around;
    arrives_ = std::move(arrives);
  }

  // As many more times what has happened since `before`.
  void Repeat(const Clock& before, double times) {
    const auto add = [&](double& value, double earlier) { value += times * (value - earlier); };
    add(prediction_.compute_seconds, before.prediction_.compute_seconds);
    add(prediction_.remote_seconds, before.prediction_.remote_seconds);
    add(prediction_.remote_bytes, before.prediction_.remote_bytes);
    add(prediction_.waited_seconds, before.prediction_.waited_seconds);
    add(now_, before.now_);
  }

  const StepPlan* plan_ = nullptr;
  Link link_;
  double flops_;
  double now_ = 0, free_ = 0;      // seconds: of the domain, and since when nothing more is to be sent
  std::optional<double> start_;    // of the first operation
  std::map<int, double> arrives_;  // by operation
  StepPrediction prediction_;
};

}  // namespace

StepPrediction Predict(const StepPlan& plan, const Topology& topology) {
  Clock clock(LinkBetweenDomains(plan, topology), topology.flops());
  clock.Run(plan);
  return clock.Finish();
}

}  // namespace meshwork
