// The sections of a step: its launches are graphs, cut where the process does something on the way.
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

// Of a step's root, in order; at least one. The last one may be a graph of no actions, for what the step puts behind them.
// `may_be_graph`: false makes none of them a graph; so do very many launches, and an exchange that is under way where the
// process does something. `remotes_read_host`: as in LevelOptions.
std::vector<CudaSection> CutIntoSections(const CudaLevel& root, bool may_be_graph, bool remotes_read_host);

}  // namespace meshwork
