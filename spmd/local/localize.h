// Localize turns a global program with relayouts into the program each device runs: block shapes,
// relayouts spelled out as slices and collectives, padding masked where a reduction would see it.
//
// A bf16 value that owes a sum (or product) is carried in f32 until the reduction is made, and then rounded
// once:
//
//   %h = matmul %a, %b : bf16[8,4] {_,_ | sum:x}        %0 = widen %a : f32[8,2] of f32[8,4] {_,x}
//   %r = relayout %h {_,_}                              %1 = widen %b : f32[2,4] of f32[4,4] {x,_}
//                                                   ->  %h = matmul %0, %1 : f32[8,4] {_,_ | sum:x}
//                                                       %2 = all_reduce %h axes=(x) op=sum : f32[8,4] {_,_}
//                                                       %r = narrow %2 : bf16[8,4] {_,_}
//
// Elements picked by a gather from a sharded dim are sent in bf16: one device has the element, the others
// zeros.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

struct LocalizeOptions {
  // The most bytes that operand and result of one step of a relayout may take on a device. If no plan stays
  // within this limit, the plan that takes the fewest is used. 0: PlanRelayout's own limit, which sends
  // least.
  int64_t relayout_bytes = 0;
  // Unless it is the assumed topology, relayouts take the least time by it.
  Topology topology = {};
  // Terms of bf16 sums are bf16 themselves, not f32 (see CompileOptions::narrow_sums).
  bool narrow_sums = false;
};

// `graph`: the result of InsertRelayouts. The program is the same for all devices: ops compute from the
// device's coordinate whatever differs between devices.
Graph Localize(const Graph& graph, const LocalizeOptions& options = {});

// The values of relayout_bytes at which Localize writes another program: the peaks, in bytes, of relayout
// plans that send more and hold less. Descending.
std::vector<int64_t> RelayoutLimits(const Graph& graph, const LocalizeOptions& options = {});

}  // namespace meshwork
