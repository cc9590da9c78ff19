// Plans how a tensor changes its layout: a sequence of slices and collectives.
//
//   {x,_} -> {_,x}        all_to_all
//   {_ | sum:x} -> {x}    reduce_scatter
//   {x} -> {_}            all_gather
//   {_} -> {x}            shard_slice: no communication
//   {x,y} -> {y,x}        all_to_all_v: each device takes its block straight from those that hold it
//
// A strided dim is planned in the space of factors that both layouts cut evenly: the tensor is read as one of
// more dims (reshape: the same bytes), and in the end read back.
//
//   {8@x*8} -> {8*8@x}    reshape to [8,8] {x,_}, all_to_all, reshape to [64]
//
// The order is greedy: what makes the tensor smaller comes first (slice, permute, all-to-all, reduce-scatter,
// all-reduce), gathers last. Where that takes several collectives, or moves or reduces what is cut away
// afterwards, a search over layouts (relayout_search.h) finds the plan that sends least, the direct exchange
// among them:
//
//   {_,x} -> {(x,y),_}    all_to_all_v, not the all_to_all to {x,_} that a slice along y would follow
//
// Where a topology is given, the search finds the plan that takes the least time by it: over two hosts an
// all-reduce becomes a reduce-scatter within each host, an all-reduce across, and an all-gather within. Plans
// are kept, per thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

enum class RelayoutKind {
  kShardSlice,
  kCollectivePermute,
  kAllToAll,
  kAllToAllV,  // by the layouts before and after alone
  kReduceScatter,
  kAllReduce,
  kAllGather,
  kReshape  // the same bytes, read as a tensor of RelayoutStep::shape
};
std::string_view RelayoutKindName(RelayoutKind kind);  // the op's name: "shard_slice", …

// A slice, a collective or a reshape, and what it leaves.
struct RelayoutStep {
  RelayoutKind kind;
  AxisList axes;                 // of the group; empty for collective_permute and all_to_all_v
  int dim = -1;                  // the dim that is sliced, scattered, gathered, or left by axes
  int to_dim = -1;               // all_to_all: the dim the axes move to
  ReduceOp op = ReduceOp::kSum;  // of a reduction
  Layout result;
  Shape shape;                // of the whole tensor that `result` lays out
  int64_t wire_elements = 0;  // sent per device; blocks count, padding included, but see AllToAllVTraffic

  bool operator==(const RelayoutStep&) const = default;
};

// The way from one layout to another.
struct RelayoutPlan {
  std::vector<RelayoutStep> steps;  // empty if nothing has to happen
  int64_t wire_elements = 0;        // sum over the steps
  double seconds = 0;               // by the topology, be it assumed
  // No plan of these steps within the memory sends less, but for one element where the greedy order takes one
  // collective: rounding makes such differences. Equal to wire_elements unless the search was cut short
  // (meshes of many axes); 0 if dims are strided, or where time decides.
  int64_t lower_bound = 0;
  // Where time decides: no plan of these steps within the memory takes less. Equal to seconds unless the
  // search was cut short; 0 if dims are strided.
  double seconds_lower_bound = 0;
  // The most that operand and result of one step hold on a device; those of a reshape are one.
  int64_t peak_elements = 0;
};

struct RelayoutOptions {
  // Look for a cheaper plan than the greedy order gives; otherwise that, or gathering everything and cutting
  // anew, where that is cheaper.
  bool search = true;
  // Look among the plans made before on this thread.
  bool use_cache = true;
  // What no step may exceed, operand and result together; 0: twice the larger block of `from` and `to`, or
  // kAlwaysFits where that is more. Where no plan stays below, the greedy order is returned (see
  // RelayoutPlan::peak_elements).
  int64_t peak_elements = 0;
  static constexpr int64_t kAlwaysFits = 16384;
  // Unless it is assumed, time by it decides, before what is sent.
  Topology topology = {};
  int64_t element_bytes = 4;  // for times

  bool operator==(const RelayoutOptions&) const = default;
};

// Takes a tensor of `shape` from one layout to another of the same mesh and rank. Axes of size 1
// cost nothing and take no step: give layouts without them (Layout::WithoutTrivialAxes).
// Laws: the last step's result is `to`. Every pair of whole layouts has a plan. Nothing is sent if `to` cuts
// the blocks of `from` further. Plans between plain layouts do not reshape. Errors: `to` owes a reduction
// that `from` does not. REQUIRES: both layouts fit `shape`.
absl::StatusOr<RelayoutPlan> PlanRelayout(const Layout& from, const Layout& to, const Shape& shape,
                                          const RelayoutOptions& options = {});

}  // namespace meshwork
