// How much data crosses between processes in each operation of their plans (runtime/step_plan.h).
//
// Plans of one program have the same operations in the same order, but not the same data in them: where rows of one process
// go to two others, each of these receives half of what the first one sends.
#pragma once

#include <map>
#include <vector>

#include "meshwork/runtime/cpu/schedule.h"

namespace meshwork {

// The bytes that instructions send, or receive, whichever are more.
double BytesCrossing(const Schedule& schedule, const Instruction& instruction);

// Where an operation is: the number of each loop around it, among those of its plan, and of the body in it; then its own.
using OperationPath = std::vector<int>;

// The most bytes of each operation in any of the schedules that were added. Not thread-safe.
class Crossings {
 public:
  void Add(const Schedule& schedule) { Add(schedule, {}); }
  // 0 for an operation that none of them has.
  double BytesOf(const OperationPath& operation) const;

 private:
  void Add(const Schedule& schedule, const OperationPath& around);

  std::map<OperationPath, double> bytes_;
};

}  // namespace meshwork
