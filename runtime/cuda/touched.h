// The storages of a step plan that a step touches: who may run before whom.
#pragma once

#include <vector>

#include "meshwork/runtime/step_plan.h"

namespace meshwork {

struct Touched {
  std::vector<int> reads, writes;  // may have a storage several times
  bool crosses = false;            // to other domains, or may: they start their operations in the same order

  // Whether one writes a storage that the other touches, or both cross, so that their order matters.
  bool Conflicts(const Touched& other) const;
  // Of both, one behind the other.
  void Add(const Touched& other);
};

// With what the bodies of a loop touch.
Touched TouchedBy(const StepPlan& plan, const Step& step);

}  // namespace meshwork
