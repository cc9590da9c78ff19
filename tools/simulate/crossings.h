// How much data crosses between processes in each operation of their plans (runtime/plan/step_plan.h).
//
// All plans of a program have the same operations in the same order, but an operation may move different amounts of
// data in each: if the rows of one process go to two others, each of these receives half of what the first one sends.
#pragma once

#include <map>
#include <vector>

#include "meshwork/runtime/cpu/schedule.h"

namespace meshwork {

// The bytes that instructions send, or receive, whichever are more.
double BytesCrossing(const Schedule& schedule, const Instruction& instruction);

// The place of an operation: for each loop around it, the loop's number in its plan and the body's number in the
// loop; then the operation's own number.
using OperationPath = std::vector<int>;

// The most bytes of each operation in any of the schedules that were added. Not thread-safe.
class Crossings {
 public:
  void Add(const Schedule& schedule) { Add(schedule, {}); }
  // 0 for an operation that no schedule has.
  double BytesOf(const OperationPath& operation) const;

 private:
  void Add(const Schedule& schedule, const OperationPath& around);

  std::map<OperationPath, double> bytes_;
};

}  // namespace meshwork
