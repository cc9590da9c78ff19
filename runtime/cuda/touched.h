// The storages of a step plan that a step touches. They decide which steps may change their order.
#pragma once

#include <cstddef>
#include <vector>

#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

struct Touched {
  std::vector<int> reads, writes;  // may list a storage several times
  bool crosses = false;            // may exchange with other domains, which start operations in one order

  // Whether the order of the two matters: one writes a storage that the other touches, or both cross.
  bool Conflicts(const Touched& other) const;
  // Makes this the storages that both touch, one after the other.
  void Add(const Touched& other);
};

// The storages that the step touches; for a loop, including those that its bodies touch.
Touched TouchedBy(const StepPlan& plan, const Step& step);

// Finds whether the contents of storages are read later. REQUIRES: the plan's steps do not change.
class LaterReads {
 public:
  explicit LaterReads(const StepPlan& plan);

  // Whether the contents that the storage has before `step` may still be read: a step from `step` on reads the
  // storage before a step writes all of it.
  bool IsRead(int storage, size_t step) const;

 private:
  struct Access {
    size_t step;
    bool reads;  // otherwise it writes the whole storage
  };
  std::vector<std::vector<Access>> accesses_;  // by storage, ascending; without those that write a part
};

}  // namespace meshwork
