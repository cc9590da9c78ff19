// Steps that do one op on different tensors are one launch that reads a table of them (ops/kernels/cuda/parts.h):
// updates of weights by an optimizer, casts of weights, lookups in tables. If a gradient is cast only for its update,
// the update reads the cast's operand, and there is no cast. If rows are added up to a gradient (scatter_add) only for
// its lazy update, the update adds them up itself: there is no gradient of the table's size, and other rows are not
// touched.
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
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

struct CudaParts {
  const OpRow* row = nullptr;
  // The spec of the first part, for MakeCudaParts; all parts have the same kernel text. Operands have the dtypes that
  // are read.
  KernelSpec spec;
  std::optional<KernelSpec> scatter =
      std::nullopt;              // for MakeCudaRowUpdates: the scatter_add that makes the gradient
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

  // One part. It has one step, which is a lookup, a cast or an update; or two: an update, and before it the step that
  // makes its gradient, which nothing else reads.
  struct Member {
    std::vector<size_t> steps;
    CudaParts alone;   // of one part
    std::string kind;  // parts of one kind may be one launch
    Touched touched;
    int64_t held = 0;    // elements that are kept while it waits for others
    int64_t enough = 0;  // a launch that keeps this many takes no more parts
  };
  // nullopt: the step is no update. `feeds`: the step whose work this update does, too (UpdateOf).
  std::optional<Member> Update(size_t step, std::optional<size_t> feeds) const;
  // nullopt: the step is no lookup in rows.
  std::optional<Member> Lookup(size_t step) const;
  // A cast of a variable that may run at any earlier place: no step before writes the variable or touches the
  // result's memory. nullopt: the step is no such cast.
  std::optional<Member> CastOfVariable(size_t step) const;
  // The update that can do the work of the step, too, if the step makes its gradient: a cast, or a scatter_add for a
  // lazy update. The two may be anywhere in the plan.
  std::optional<size_t> UpdateOf(size_t step) const;

  // Steps [first, end) as one launch, if they are parts.
  struct Found {
    CudaParts parts;
    size_t end;
  };
  // The longest run of steps from `first` on, within [first, end), that may be one launch; nullopt if it has fewer
  // than two.
  std::optional<Found> Find(size_t first, size_t end) const;

 private:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();

  int StorageOf(BufferId buffer) const { return plan_.buffers[static_cast<size_t>(buffer)].storage; }
  // The update that is the only reader of the step's result, and reads it only as its gradient.
  std::optional<size_t> OnlyReaderOf(const ComputeStep& step) const;
  // Adds the step to the member of its update, which then reads the step's operands instead of the gradient.
  void Fold(size_t step, Member& member) const;

  const StepPlan& plan_;
  struct Uses {
    int reads = 0, writes = 0;
    size_t last_read = 0;  // the step
    size_t first_touch = kNever, first_write = kNever;
  };
  std::vector<Uses> uses_;  // per storage
};

// The steps of the plan in an order in which those that can be one launch follow each other. Units, [first, end), stay
// together. Law: of two steps of which one writes a storage that the other touches, the first stays the first.
struct StepRange {
  size_t first, end;
};
std::vector<size_t> OrderForParts(const StepPlan& plan, const std::vector<StepRange>& units);

}  // namespace meshwork
