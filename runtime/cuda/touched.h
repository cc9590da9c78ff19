// The storages of a step plan that a step touches: who may run before whom.
#pragma once

#include <cstddef>
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

// Whether what storages have is read later. REQUIRES: the plan's steps do not change.
class LaterReads {
 public:
  explicit LaterReads(const StepPlan& plan);

  // Whether what the storage has before `step` may still be read: whether a step from `step` on reads the storage before another
  // one writes all of it.
  bool IsRead(int storage, size_t step) const;

 private:
  struct Access {
    size_t step;
    bool reads;  // otherwise it writes the whole storage
  };
  std::vector<std::vector<Access>> accesses_;  // by storage, ascending; without those that write a part
};

}  // namespace meshwork
