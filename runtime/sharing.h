// One copy of what is the same: which devices of a process hold equal values, found statically.
//
// A value *varies* over a set of mesh axes; devices that agree on those coordinates hold the same
// bits. On [batch=4, model=2] a weight {_,model} varies over model: 2 instances instead of 8. After
// the all_reduce of its gradient over batch, so does the gradient, and the optimizer runs twice per
// step, not eight times.
//
//   argument              the axes that shard it
//   compute, local rows   those of the operands; with reads_block also the axes that shard its
//                         operands and results
//   collectives           those of the operand without the group's, and those that shard the result or
//                         on which it is partial
//
// Pure functions of the program; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/mesh/placement.h"

namespace meshwork {

// The axes in the order in which instances are numbered, major to minor: the last of the mesh first. The
// first axes of a mesh mostly shard batches, so the blocks of a batch follow each other: on [batch=4,
// model=2] a value that varies over both is [model, batch, …] in memory.
AxisList InstanceOrder(AxisSet axes);

// The instances of a value that varies over `axes`: one per coordinate on them, numbered in InstanceOrder.
// Laws: Of(Representative(i)) == i; Representative(Of(d)) <= d.
class InstanceMap {
 public:
  InstanceMap() : InstanceMap(Mesh(), {}) {}
  InstanceMap(const Mesh& mesh, AxisSet axes) : InstanceMap(Domain(mesh), axes) {}
  // Those that the devices of one domain hold: one per coordinate on the axes within it.
  InstanceMap(const Domain& domain, AxisSet axes);

  AxisSet axes() const { return axes_; }  // those within the domain; without those of size 1
  // Those that the value varies over, in the domain and across.
  AxisSet varying() const { return varying_; }
  int64_t count() const { return group_.size(); }
  // The instance that `device` holds. REQUIRES: it is of the domain.
  int64_t Of(int64_t device) const { return group_.RankOf(device); }
  // The lowest device that holds it.
  int64_t Representative(int64_t instance) const { return group_.Member(first_, instance); }

 private:
  AxisSet varying_, axes_;
  AxisGroup group_;
  int64_t first_;  // device of the domain
};

AxisSet AllAxes(const Mesh& mesh);

// Whether devices that differ on some of `axes` may exchange data in a collective.
bool MovesOver(const Graph& local, const Node& collective, AxisSet axes);

// Per value, the axes it varies over. `arguments`: those of each argument, in order. With
// share=false every node's results vary over all axes, which changes no number.
// REQUIRES: every value has a layout.
std::vector<AxisSet> VaryingAxes(const Graph& local, const std::vector<AxisSet>& arguments, bool share);

}  // namespace meshwork
