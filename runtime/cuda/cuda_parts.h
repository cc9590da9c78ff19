// Steps that do one op on different tensors are one launch that reads a table of them (kernels/cuda/parts.h): updates of
// weights by an optimizer, casts of weights. Where a gradient is cast for its update alone, the update reads what is cast, and
// the cast is gone.
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
#include "meshwork/runtime/cuda/touched.h"
#include "meshwork/runtime/step_plan.h"

namespace meshwork {

struct CudaParts {
  const OpRow* row = nullptr;
  // Of the first part, for MakeCudaParts: parts have one text. Operands have the dtypes that are read.
  KernelSpec spec;
  std::vector<BufferId> common;  // the operands that are one for all parts
  struct Part {
    std::vector<BufferId> buffers;  // its operands, then its results
    int64_t elements = 0;
  };
  std::vector<Part> parts;
};

// Reads a plan for steps that are parts. REQUIRES: the plan outlives it, and does not change.
class PartsFinder {
 public:
  explicit PartsFinder(const StepPlan& plan);

  // The steps of one part, in order: an update, or a cast and the update that alone reads its result.
  struct Member {
    std::vector<size_t> steps;
    CudaParts alone;   // of one part
    std::string kind;  // parts of one kind may be one launch
    Touched touched;
    int64_t enough = 0;  // a launch of so many elements takes no more parts
    int64_t elements() const { return alone.parts[0].elements; }
  };
  // nullopt: the step is no update. `cast`: a step whose update it is (UpdateOfCast).
  std::optional<Member> Update(size_t step, std::optional<size_t> cast) const;
  // A cast of a variable that may run as early as one likes: nobody has written the variable, nor touched the result's memory.
  // nullopt: the step is none.
  std::optional<Member> CastOfVariable(size_t step) const;
  // The update that can do the cast itself, if the step is such a cast; both may be anywhere in the plan.
  std::optional<size_t> UpdateOfCast(size_t step) const;

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
