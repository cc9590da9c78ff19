// Which storages a step of a plan touches. Pure function, thread-safe.
#pragma once

#include <vector>

#include "meshwork/runtime/step_plan.h"

namespace meshwork {

struct Touched {
  std::vector<int> reads, writes;  // storages of the plan

  // Whether one writes what the other touches, so that they must keep their order.
  bool Conflicts(const Touched& other) const;
};

// Of a loop, all that its bodies are given counts as read and written.
Touched TouchedBy(const StepPlan& plan, const Step& step);

}  // namespace meshwork
