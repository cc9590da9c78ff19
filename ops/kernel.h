// How a row computes on a CPU.
//
// A row's `cpu` factory is called once per node when a program is prepared; it reads types and
// attributes, chooses a loop or a library call, and returns a closure that runs on pointers. The
// closure allocates nothing, keeps no state and may run on several threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "layout/layout.h"
#include "ops/attrs.h"
#include "ops/type.h"

namespace meshwork {

// One operand or result: what a device holds of it, and the whole it is part of.
struct TensorSpec {
  Type local;   // block shape; buffers are dense, row-major, 64-byte aligned where ours
  Type global;  // == local on one device
};

// What a kernel is made for.
struct KernelSpec {
  std::vector<TensorSpec> operands;
  std::vector<TensorSpec> results;
  Attrs attrs;
};

// What a kernel is run on.
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

  template <typename T>
  const T* In(int i) const {
    return static_cast<const T*>(in[i]);
  }
  template <typename T>
  T* Out(int i) const {
    return static_cast<T*>(out[i]);
  }
};

// What computes an op, on as many threads as there are units.
struct Kernel {
  std::function<void(const KernelArgs&)> run;
  // The work can be cut into this many independent units (elements, rows); 1: not at all. The
  // result does not depend on the cut.
  int64_t units = 1;
};

using KernelFactory = Kernel (*)(const KernelSpec& spec);

}  // namespace meshwork
