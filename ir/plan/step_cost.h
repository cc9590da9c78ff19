// What a step costs, and the order in which passes compare steps and plans.
//
//   if (CostOf(other, topology) < CostOf(local, topology)) …  // the other program is cheaper
#pragma once

#include <cstdint>
#include <tuple>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// What a device sends, receives, computes and holds in one step.
struct StepCost {
  int64_t refused = 0;  // gathers beyond the replication budget
  double seconds = 0;   // in collectives, by the topology; 0: unknown
  int64_t bytes = 0;    // on the wire: WireBytes
  int64_t collectives = 0;
  int64_t received = 0;    // the most of the bytes that a device receives
  int64_t peak_bytes = 0;  // LogicalPeakBytes

  // Cheaper: fewer refused gathers, else less time, else fewer bytes, then fewer collectives. The bytes received
  // and held do not count. A strict weak order.
  friend bool operator<(const StepCost& a, const StepCost& b) {
    return std::tie(a.refused, a.seconds, a.bytes, a.collectives) <
           std::tie(b.refused, b.seconds, b.bytes, b.collectives);
  }
};

// The cost of a local program. `refused` stays 0: the caller counts it if it matters.
StepCost CostOf(const Graph& local, const Topology& topology);

}  // namespace meshwork
