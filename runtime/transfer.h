// Transfers: data that moves between buffers of one process, and the shares of it that workers do.
//
// Everything the runtime does besides running kernels is a list of transfers: cutting a host tensor
// into blocks, the parts of collectives that stay within the process, writing outputs and variables.
// A transfer fills one region of one buffer, from one source (a copy), from several that are
// reduced in the order given, or from none with one element over and over. It names buffers by number; where
// they lie is a table of addresses.
//
// Splitting a transfer between workers changes no bit of the result: each element is reduced over
// the sources in their order, by one worker. Plain values; RunTransfers may run on several threads
// at once on disjoint slices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/runtime/box.h"

namespace meshwork {

using BufferId = int32_t;

struct Transfer {
  BoxCopy box;  // from every source alike: they hold the same block
  DType dtype = F32;
  ReduceOp op = ReduceOp::kSum;  // with more than one source
  BufferId to = -1;
  absl::InlinedVector<BufferId, 1> from;
  std::array<std::byte, 8> fill = {};  // without a source: the element
};

// A share of a list of work items: units [begin, end) of one of them. The units of a transfer are
// the elements of its region.
struct WorkSlice {
  int item;
  int64_t begin, end;
};

// Does the given slices. `addresses` is indexed by BufferId. Slices that follow each other and read the same
// are done together, part by part. What is far larger than the caches is written past them.
void RunTransfers(std::span<const Transfer> transfers, std::span<const WorkSlice> slices,
                  std::span<std::byte* const> addresses);

// An order in which RunTransfers does slices that read the same, one of them for each of several devices,
// side by side, and so reads it once. Changes nothing else.
void SortByWhatIsRead(std::span<const Transfer> transfers, std::vector<WorkSlice>& slices);

}  // namespace meshwork
