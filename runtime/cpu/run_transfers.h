// Running transfers (runtime/plan/transfer.h) on the workers of a CPU.
//
// Splitting a transfer between workers changes no bit of the result: each element is reduced over the sources
// in their order, by one worker. Both functions are thread-safe; several threads may run disjoint slices of
// the same transfers at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "meshwork/runtime/plan/transfer.h"

namespace meshwork {

// A share of a list of work items: units [begin, end) of one of them. The units of a transfer are the
// elements of its region.
struct WorkSlice {
  int item;
  int64_t begin, end;
};

// Does the given slices. `addresses` is indexed by BufferId. Consecutive slices that read the same memory are
// done together, part by part. Data far larger than the caches is written past them.
void RunTransfers(std::span<const Transfer> transfers, std::span<const WorkSlice> slices,
                  std::span<std::byte* const> addresses);

// Sorts slices so that those that read the same memory, for several devices, follow each other; RunTransfers
// then reads this memory once. Changes nothing else.
void SortByWhatIsRead(std::span<const Transfer> transfers, std::vector<WorkSlice>& slices);

}  // namespace meshwork
