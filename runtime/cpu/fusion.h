// Decides which kernels run together, a few rows at a time, so that the results of one are in the cache for
// the next.
//
//   matmul  [128,700] = [128,784] x [784,700]      strips of 64 rows, by a library
//   add     [128,700] + [700]                      then tiles of some rows that fit in the L1 cache:
//   relu    [128,700]                              both ops on one, then both on the next
//
// A group is a run of nodes, in the order of the program, that fall into the same *rows*: equal parts, such
// that row i of an op's results needs only row i of the results of the ops before it in the group. Softmax
// over the last dim is one group (its maxima and sums are one element per row). So is an optimizer after the
// product that computes its gradient; the gradient is then never stored as a whole. A product begins a group:
// it reads all of one operand and is worth a pass of its own.
//
// A value that no other instruction reads has memory for one tile (or one strip, if a product computes it)
// per worker, see PlanTiles. Numbers do not depend on groups.
#pragma once

#include <vector>

#include "meshwork/runtime/cpu/schedule.h"

namespace meshwork {

// A group in the making.
class Group {
 public:
  bool empty() const { return steps_.empty(); }
  int64_t rows() const { return rows_; }
  const std::vector<KernelStep>& steps() const { return steps_; }

  // Takes a step if it may run in one pass with those before; an empty group takes any step. Otherwise leaves
  // `step` unchanged.
  bool Add(KernelStep& step, const std::vector<Buffer>& buffers);
  // Empties the group.
  std::vector<KernelStep> Take();

 private:
  // One operand or result of a step.
  struct Access {
    int storage;
    int64_t bytes, parts, units;  // units: of its step
    bool is_write;
  };

  bool IsSafe(const std::vector<Access>& accesses, int64_t rows) const;
  bool IsWorthIt(const std::vector<Access>& added, int64_t units, int64_t rows) const;

  std::vector<KernelStep> steps_;
  std::vector<Access> accesses_;
  int64_t rows_ = 0;
};

// Chooses how many rows of each instruction make a tile. Values that only one instruction touches get memory
// for a tile or a strip per worker. REQUIRES: every kernel instruction has its slices.
void PlanTiles(Schedule& schedule);

}  // namespace meshwork
