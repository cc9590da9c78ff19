// Collects steps of a plan that join to one kernel (cuda_fusion.h), step by step:
//
//   CudaGroupMaker maker(plan);
//   while (maker.Add(plan.steps[i])) ++i;     // each behind those before
//   CudaGroup group = maker.Make(0, LaterReads(plan));
//
// Not thread-safe; several may read one plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "meshwork/ir/type.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/runtime/cuda/cuda_parts.h"
#include "meshwork/runtime/cuda/touched.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// Steps [first, end) of the plan as one launch.
struct CudaGroup {
  size_t first = 0, end = 0;
  std::vector<CudaChainOp> ops;    // with pointers into the plan
  std::vector<BufferId> operands;  // what the kernel reads
  std::vector<int> stored;         // the ops whose results it writes
  std::vector<BufferId> results;   // where
  bool has_rows = false;           // MakeCudaRows
  bool has_columns = false;        // MakeCudaColumns
  // Instead of ops: one op on many tensors.
  std::optional<CudaParts> parts = std::nullopt;
};

// Whether the step makes many elements of few, by a broadcast or as one_hot: its readers can as well make them
// themselves.
bool Spreads(const StepPlan& plan, const Step& step);

// A group in the making. Keeps pointers into the plan. Copies are independent.
class CudaGroupMaker {
 public:
  explicit CudaGroupMaker(const StepPlan& plan) : plan_(&plan) {}

  size_t size() const { return members_.size(); }

  // Takes the step if it can be in one kernel with those before; otherwise nothing changes. `may_spread`: also takes
  // a step that Spreads and shares no value with those before.
  bool Add(const Step& step, bool may_spread = false);
  // Takes a reduction of columns as the last step, if it can be in one kernel with those before.
  bool Close(const Step& step);

  // The group of the steps that were taken, which are those of the plan from `first` on.
  CudaGroup Make(size_t first, const LaterReads& later) const;

 private:
  // A part of a storage.
  struct Region {
    int storage = -1;
    int64_t begin = 0, end = 0;  // bytes

    bool operator==(const Region&) const = default;
    bool Overlaps(const Region& other) const {
      return storage == other.storage && begin < other.end && other.begin < end;
    }
  };

  // The order in which an op reads the elements of an operand while it makes its own in order. Dims of size 1 are
  // left out, and dims that continue each other in memory are merged.
  struct Pattern {
    struct Dim {
      int64_t size, stride;
      bool operator==(const Dim&) const = default;
    };
    std::vector<Dim> dims;  // minor to major

    Pattern(const Shape& shape, const Shape& strides) {
      for (size_t d = shape.size(); d-- > 0;) {
        if (shape[d] == 1) continue;
        if (!dims.empty() && strides[d] == dims.back().stride * dims.back().size)
          dims.back().size *= shape[d];
        else dims.push_back({shape[d], strides[d]});
      }
    }
    bool operator==(const Pattern&) const = default;
    // One element for each row of `size`.
    bool IsOfRows(int64_t rows, int64_t size) const {
      if (rows == 1) return dims == std::vector<Dim>{{size, 0}};
      return dims == std::vector<Dim>{{size, 0}, {rows, 1}};
    }
  };

  struct Member {
    CudaChainOp op;
    Region region;
    BufferId buffer;
    DType dtype;
    bool is_fold, is_wide;   // wide: makes, or as a fold reads, one element per element of the group
    bool is_spread;          // a step that Spreads, joined only for its readers
    int64_t elements, size;  // of the group, with this member; of a row
    bool has_wide_result() const { return is_wide && !is_fold; }
  };
  struct Input {
    BufferId buffer;
    Region region;
    DType dtype;
    Pattern pattern;
    bool is_wide, is_whole;  // read by wide ops; element by element
    // Each element is read by the threads of one row before any of them writes.
    bool IsOfRows(int64_t elements, int64_t size) const {
      return size > 0 && (is_wide ? pattern.IsOfRows(elements / size, size) : is_whole);
    }
  };

  Region RegionOf(const ValueBuffers& value, const Type& type) const;
  // The member without its operands; nullopt if an op of this kind cannot join.
  std::optional<Member> MemberOf(const ComputeStep& compute) const;
  bool AddOperand(const ComputeStep& compute, size_t o, Member& member, std::vector<Input>& inputs,
                  bool& is_linked) const;
  // A thread writes only where it has itself read before, or where nothing is read.
  bool MayWrite(const Member& member, const std::vector<Input>& inputs) const;

  const StepPlan* plan_;
  std::vector<Member> members_;
  std::vector<Input> inputs_;
  int64_t elements_ = 0;    // 0: nothing yet
  int64_t size_ = 0;        // of a row; 0: there is no reduction of rows
  bool is_closed_ = false;  // by a reduction of columns
};

// Adds the steps `spreads`, which Spread, and then the step, if all of them can join; otherwise nothing changes.
bool AddBehind(const StepPlan& plan, const std::vector<size_t>& spreads, size_t step, CudaGroupMaker& group);

}  // namespace meshwork
