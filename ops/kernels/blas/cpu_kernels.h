// The kernel that computes a row on a CPU.
//
// Nearly every row has a kernel of its own (OpRow::cpu), which is a loop. Rows whose kernels call oneDNN or
// OpenBLAS have no OpRow::cpu: their kernels are in this room, found by the row's name, so that code that
// only parses, prints or compiles programs links no such library. To run a row, call CpuKernelOf.
#pragma once

#include <span>
#include <string_view>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"

namespace meshwork {

struct LibraryKernel {
  std::string_view op;  // the row's name
  KernelFactory cpu;
};
// The kernels of this room.
std::span<const LibraryKernel> LibraryKernels();

// The row's own kernel, else this room's kernel for a row of its name; null if there is none. Thread-safe.
KernelFactory CpuKernelOf(const OpRow& row);

}  // namespace meshwork
