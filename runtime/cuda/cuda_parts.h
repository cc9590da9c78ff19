// Steps that do one op on different tensors are one launch that reads a table of them (ops/kernels/cuda/parts.h): updates of
// weights by an optimizer, casts of weights, lookups in tables. Where a gradient is cast for its update alone, the update reads
// what is cast, and the cast is gone. Where rows are added up to a gradient (scatter_add) for its lazy update alone, the update
// adds them up itself: no gradient of the table's size is there, and no other row is touched.
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/cuda/parts.h"
#include "meshwork/runtime/cuda/touched.h"
#include "meshwork/runtime/step_plan.h"

namespace meshwork {

struct CudaParts {
  const OpRow* row = nullptr;
  // Of the first part, for MakeCudaParts: parts have one text. Operands have the dtypes that are read.
  KernelSpec spec;
  std::optional<KernelSpec> scatter =
      std::nullopt;              // updates of rows, for MakeCudaRowUpdates: what adds up the gradient
  std::vector<BufferId> common;  // the operands that are one for all parts
  struct Part {
    std::vector<BufferId> operands, results;
    int64_t elements = 0;  // of the first result
    CudaTableRows table = {};
  };
  std::vector<Part> parts;
};

// Reads a plan for steps that are parts. REQUIRES: the plan outlives it, and does not change.
class PartsFinder {
 public:
  explicit PartsFinder(const StepPlan& plan);

  // One part. It has one step, which is a lookup, a cast or an update; or two: an update, and before it the step that makes its
  // gradient, which nothing else reads.
  struct Member {
    std::vector<size_t> steps;
    CudaParts alone;   // of one part
    std::string kind;  // parts of one kind may be one launch
    Touched touched;
    int64_t held = 0;    // elements that are kept while it waits for others
    int64_t enough = 0;  // a launch of which so many are kept takes no more parts
  };
  // nullopt: the step is no update. `feeds`: a step whose update it is (UpdateOf).
  std::optional<Member> Update(size_t step, std::optional<size_t> feeds) const;
  // nullopt: the step is no lookup in rows.
  std::optional<Member> Lookup(size_t step) const;
  // A cast of a variable that may run as early as one likes: nobody has written the variable, nor touched the result's memory.
  // nullopt: the step is none.
  std::optional<Member> CastOfVariable(size_t step) const;
  // The update that can do the step itself, if the step makes its gradient: a cast, or a scatter_add for a lazy update. Both may
  // be anywhere in the plan.
  std::optional<size_t> UpdateOf(size_t step) const;

  // Steps [first, end) as one launch, if they are parts.
  struct Found {
    CudaParts parts;
    size_t end;
  };
  // As many steps of [first, end) as may be one launch, from the first on, if they are at least two.
  std::optional<Found> Find(size_t first, size_t end) const;

 private:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();

  int StorageOf(BufferId buffer) const { return plan_.buffers[static_cast<size_t>(buffer)].storage; }
  // The update whose gradient is the only result of the step, and nothing else.
  std::optional<size_t> OnlyReaderOf(const ComputeStep& step) const;
  // Puts what the step reads in the place of the gradient.
  void Fold(size_t step, Member& member) const;

  const StepPlan& plan_;
  struct Uses {
    int reads = 0, writes = 0;
    size_t last_read = 0;  // the step
    size_t first_touch = kNever, first_write = kNever;
  };
  std::vector<Uses> uses_;  // per storage
};

// The steps of the plan in an order in which those that can be one launch follow each other. Units, [first, end), stay together.
// Law: of two steps of which one writes a storage that the other touches, the first stays the first.
struct StepRange {
  size_t first, end;
};
std::vector<size_t> OrderForParts(const StepPlan& plan, const std::vector<StepRange>& units);

}  // namespace meshwork
