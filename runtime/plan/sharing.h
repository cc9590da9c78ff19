// Equal values are stored once: which devices of a process hold equal values, found statically.
//
// A value *varies* over a set of mesh axes; devices that agree on those coordinates hold the same
// bits. On [batch=4, model=2] a weight {_,model} varies over model: 2 instances instead of 8. After
// the all_reduce of its gradient over batch, so does the gradient, and the optimizer runs twice per
// step, not eight times.
//
//   argument              the axes that shard it
//   compute, local rows   the axes of the operands; with reads_block also the axes that shard the
//                         operands and results
//   collectives           the axes of the operand without the group's, and the axes that shard the result
//                         or on which it is partial
//   all_reduce by a       also the group's: each device has a result of its own. But not if the sum goes on to
//   cross-device op       other domains, for then one result of each domain is enough
//
// Pure functions of the program; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/mesh/placement.h"

namespace meshwork {

// The axes in the order in which instances are numbered, major to minor: the last axis of the mesh first. The
// first axes of a mesh mostly shard batches, so the blocks of a batch follow each other: on [batch=4,
// model=2] a value that varies over both is [model, batch, …] in memory.
AxisList InstanceOrder(AxisSet axes);

// The instances of a value that varies over `axes`: one per coordinate on these axes, numbered in
// InstanceOrder.
// Laws: Of(Representative(i)) == i; Representative(Of(d)) <= d.
class InstanceMap {
 public:
  InstanceMap() : InstanceMap(Mesh(), {}) {}
  InstanceMap(const Mesh& mesh, AxisSet axes) : InstanceMap(Domain(mesh), axes) {}
  // The instances that the devices of one domain hold: one per coordinate on the axes within the domain.
  InstanceMap(const Domain& domain, AxisSet axes);

  AxisSet axes() const { return axes_; }  // the axes within the domain, except those of size 1
  // The axes that the value varies over, within the domain and across.
  AxisSet varying() const { return varying_; }
  int64_t count() const { return group_.size(); }
  // The instance that `device` holds. REQUIRES: the domain holds `device`.
  int64_t Of(int64_t device) const { return group_.RankOf(device); }
  // The lowest device that holds the instance.
  int64_t Representative(int64_t instance) const { return group_.Member(first_, instance); }

 private:
  AxisSet varying_, axes_;
  AxisGroup group_;
  int64_t first_;  // device of the domain
};

AxisSet AllAxes(const Mesh& mesh);

// Whether devices that differ on some of `axes` may exchange data in a collective.
bool MovesOver(const Graph& local, const Node& collective, AxisSet axes);

// Per value, the axes that it varies over. `arguments`: the axes of each argument, in order. With
// share=false every node's results vary over all axes, which changes no number.
// `own_results`: the axes that lead to other domains, if a cross-device op (runtime/plan/cross_device.h) makes the
// all_reduces that do not move over them; nullopt: there is no such op. REQUIRES: every value has a layout.
std::vector<AxisSet> VaryingAxes(const Graph& local, const std::vector<AxisSet>& arguments, bool share,
                                 const std::optional<AxisSet>& own_results = {});

}  // namespace meshwork
