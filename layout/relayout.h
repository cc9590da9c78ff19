// Plans how a tensor changes its layout: a sequence of slices and collectives.
//
//   {x,_} -> {_,x}        all_to_all
//   {_ | sum:x} -> {x}    reduce_scatter
//   {x} -> {_}            all_gather
//   {_} -> {x}            shard_slice: no communication
//   {x,y} -> {y,x}        all_to_all_v if x and y differ in size: each device takes its block from those that hold it
//
// A strided dim is planned in the space of factors that both layouts cut evenly: the tensor is reshaped to
// one with more dims (the same bytes), and reshaped back in the end.
//
//   {8@x*8} -> {8*8@x}    reshape to [8,8] {x,_}, all_to_all, reshape to [64]
//
// The order is greedy: steps that do not make the tensor larger come first (slice, permute, all-to-all,
// reduce-scatter, all-reduce), gathers last. If the greedy plan takes several collectives, or moves or
// reduces elements that are cut away afterwards, a search over layouts (relayout_search.h) finds the plan
// that sends least; the direct exchange is one of its candidates:
//
//   {_,x} -> {(x,y),_}    all_to_all_v, not the all_to_all to {x,_} that a slice along y would follow
//
// If a topology is given, the search finds the plan that takes the least time by it: over two hosts an
// all-reduce becomes a reduce-scatter within each host, an all-reduce across, and an all-gather within. Plans
// are cached per thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

enum class RelayoutKind : uint8_t {
  kShardSlice,
  kCollectivePermute,
  kAllToAll,
  kAllToAllV,  // given by the layouts before and after alone
  kReduceScatter,
  kAllReduce,
  kAllGather,
  kReshape  // the same bytes, read as a tensor of RelayoutStep::shape
};
std::string_view RelayoutKindName(RelayoutKind kind);  // the op's name: "shard_slice", …

// A slice, a collective or a reshape, and the layout and shape after it.
struct RelayoutStep {
  RelayoutKind kind;
  AxisList axes;                 // of the group; empty for collective_permute and all_to_all_v
  int dim = -1;                  // the dim that is sliced, scattered, gathered, or that the axes leave
  int to_dim = -1;               // all_to_all: the dim the axes move to
  ReduceOp op = ReduceOp::kSum;  // of a reduction
  Layout result;
  Shape shape;                // of the whole tensor that `result` lays out
  int64_t wire_elements = 0;  // sent per device; whole blocks, padding included, but see AllToAllVTraffic

  bool operator==(const RelayoutStep&) const = default;
};

// The way from one layout to another.
struct RelayoutPlan {
  std::vector<RelayoutStep> steps;  // empty if nothing has to happen
  int64_t wire_elements = 0;        // sum over the steps
  double seconds = 0;               // by the topology, even an assumed one
  // No plan of such steps within the memory sends less. (Exception: if the greedy plan takes one collective,
  // rounding can make another plan send one element less.) Equal to wire_elements unless the search was cut
  // short (meshes of many axes); 0 if dims are strided, or if time decides.
  int64_t lower_bound = 0;
  // If time decides: no plan of such steps within the memory takes less. Equal to seconds unless the search
  // was cut short; 0 if dims are strided.
  double seconds_lower_bound = 0;
  // The most elements that operand and result of one step hold together on a device; a reshape's are the same
  // memory and count once.
  int64_t peak_elements = 0;
  // How many steps the search looked at, a measure of its work. It does not depend on what was planned before.
  int64_t looked_at = 0;
};

struct RelayoutOptions {
  // Look for a plan that is cheaper than the greedy one. If false, the plan is the greedy one or, where that
  // is cheaper, to gather everything and cut again.
  bool search = true;
  // Look among the plans made before on this thread.
  bool use_cache = true;
  // The most elements that operand and result of a step may hold together; 0: twice the larger block of
  // `from` and `to`, or kAlwaysFits if that is more. If no plan stays within this limit, the greedy plan is
  // returned (see RelayoutPlan::peak_elements).
  int64_t peak_elements = 0;
  static constexpr int64_t kAlwaysFits = 16384;
  // Unless it is the assumed one, the plan with the least time by it is chosen; the elements sent come
  // second.
  Topology topology = {};
  int64_t element_bytes = 4;  // for times

  bool operator==(const RelayoutOptions&) const = default;
};

// Takes a tensor of `shape` from one layout to another of the same mesh and rank. Axes of size 1
// cost nothing and take no step: give layouts without them (Layout::WithoutTrivialAxes).
// Laws: the last step's result is `to`. Every pair of whole layouts has a plan. Nothing is sent if `to` only
// cuts the blocks of `from` further. Plans between plain layouts do not reshape. Errors: `to` owes a
// reduction that `from` does not. REQUIRES: both layouts fit `shape`.
absl::StatusOr<RelayoutPlan> PlanRelayout(const Layout& from, const Layout& to, const Shape& shape,
                                          const RelayoutOptions& options = {});

}  // namespace meshwork
