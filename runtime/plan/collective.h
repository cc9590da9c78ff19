// The transfers of a collective of a local program between the devices of one domain.
//
// A result block is filled from the members of its device's group. Collectives that only move data
// (all_gather, all_to_all, all_to_all_v, collective_permute) copy the intersection of the result block and
// each member's operand block, by global index, so uneven sizes and empty shards need no special cases;
// reduce_scatter reduces that part over the members, all_reduce whole buffers, both in the order of the
// members' ranks. exchange: see plan_exchange.h.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/plan/buffers.h"
#include "meshwork/runtime/plan/transfer.h"

namespace meshwork {

// The transfers that fill result `r` of collective `node` from operand r: grouped by result
// instance, ascending. `buffers` is indexed by ValueId.
// Errors: layouts that do not fit the collective (a block that its group does not hold, a reduction
// over axes that shard the operand).
absl::StatusOr<std::vector<Transfer>> PlanCollective(const Graph& local, int node, int r,
                                                     const std::vector<ValueBuffers>& buffers);

}  // namespace meshwork
