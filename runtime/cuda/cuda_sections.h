// The sections of a step: its launches form graphs, which end where the process takes part.
//
//   [graph: backward, packs]  all_reduce through the process  [graph: sums, updates, outputs]
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "meshwork/runtime/cuda/cuda_level.h"

namespace meshwork {

// Actions [begin, end) of a level. Those of a graph do nothing on the host.
struct CudaSection {
  size_t begin = 0, end = 0;
  bool is_graph = false;
};

// The sections of a step's root, in order; at least one. The last one may be a graph without actions: the step adds
// copies of its outputs to it. No section is a graph if `may_be_graph` is false, if there are very many launches, or
// if an exchange would go on from a section into another, one of them a graph. `remotes_read_host`: as in LevelOptions.
std::vector<CudaSection> CutIntoSections(const CudaLevel& root, bool may_be_graph, bool remotes_read_host);

}  // namespace meshwork
