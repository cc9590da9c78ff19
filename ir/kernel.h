// The kernel of a row on a CPU.
//
// A row's `cpu` factory is called once per node when a program is prepared; it reads types and
// attributes, chooses a loop or a library call, and returns a closure that runs on pointers. The
// closure allocates nothing, keeps no state and may run on several threads at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "meshwork/ir/attrs.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// One operand or result: the block that a device holds, and the whole tensor.
struct TensorSpec {
  Type local;   // block shape; buffers are dense, row-major; meshwork aligns the first instance to 64 bytes
  Type global;  // == local on one device
};

// The types and attributes that a kernel is made for.
struct KernelSpec {
  std::vector<TensorSpec> operands;
  std::vector<TensorSpec> results;
  Attrs attrs;
  // In a spec made by OpRow::stack: for each leading dim of the operands, whether it is reduced over. The
  // results do not have the dims that are reduced over.
  std::vector<bool> reduced = {};
};

// The instances of one value in a process lie one behind the other. A kernel for all instances of an op is
// the op with more leading dims: eight [16,784] are one [8,16,784].
struct StackDim {
  int64_t size = 1;
  std::vector<bool> varies = {};  // per operand: true: `size` instances along this dim; false: one for all
  std::optional<ReduceOp> reduced =
      {};  // the results are reduced over this dim, as by an all_reduce after the op
};
using StackDims = std::vector<StackDim>;  // outer to inner

// The threads that run one kernel together (Kernel::by_team), as one of them sees it.
class Team {
 public:
  virtual ~Team() = default;
  virtual int size() const = 0;
  virtual int member() const = 0;  // which of them this one is, from 0 on
  // Returns once all members have called it as often as this one; they see all that any of them wrote before.
  virtual void Meet() = 0;
  // Meets, and returns the pointer that member 0 passed.
  virtual void* FromFirst(void* pointer) = 0;
};

// The data that a kernel is run on.
struct KernelArgs {
  std::span<const void* const> in;
  std::span<void* const> out;
  // Where each operand and result lies in its global value, for this device. Elements of a buffer
  // beyond the extent are padding: read as anything, written freely.
  std::span<const Block> in_blocks;
  std::span<const Block> out_blocks;
  // The part of the work to do: units [begin, end) of Kernel::units.
  int64_t begin = 0;
  int64_t end = 1;
  // For a kernel with by_team. All members of the team are called with otherwise equal arguments. Null: the caller is
  // alone.
  Team* team = nullptr;

  template <typename T>
  const T* In(int i) const {
    return static_cast<const T*>(in[i]);
  }
  template <typename T>
  T* Out(int i) const {
    return static_cast<T*>(out[i]);
  }
};

// Computes an op, on up to as many threads as there are units.
//
//   matmul [128,784] x [784,700]   units 128, rows, cut at bounds {0, 64, 128}; parts {128, 1}
//   add    [128,700] + [700]       units 89600, elements; parts {89600, 1}
//   sub    [128,10] - [128,1]      units 1280; parts {1280, 128}: row i of the results needs row i of both
//   reduce_sum [128,700], dims=[0] units 700; parts {1}
//
// Rows and parts are what fusion needs to run a chain of ops a few rows at a time (docs/kernels.md).
struct Kernel {
  std::function<void(const KernelArgs&)> run;
  // The work can be cut into this many independent units (elements, rows); 1: it cannot be cut. The result
  // does not depend on the cut.
  int64_t units = 1;
  // Unit u computes the u-th of `units` equal parts of every result, and nothing else.
  bool by_rows = false;
  // Where the work may be cut, ascending from 0 to units; empty: between any two units. The result of a
  // library call may depend on how much work one call gets, so the calls are the same on any number of
  // threads.
  std::vector<int64_t> bounds = {};
  // With by_rows, per operand: a number n such that part i of n equal parts of the results needs only part i
  // of n equal parts of the operand. 1: the results need the whole operand; also for operands beyond the
  // list.
  std::vector<int64_t> parts = {};
  // All workers run each unit together, as KernelArgs::team, one unit after the other. A worker that fails still calls
  // Meet as often as the others expect. For a few units with much work each. The result does not depend on the team.
  // REQUIRES: !by_rows.
  bool by_team = false;

  bool MayCutAt(int64_t unit) const {
    return bounds.empty() || std::binary_search(bounds.begin(), bounds.end(), unit);
  }
  int64_t PartsOf(size_t operand) const { return operand < parts.size() ? parts[operand] : 1; }
};

using KernelFactory = Kernel (*)(const KernelSpec& spec);

}  // namespace meshwork
