// The texts and the work of the nodes that an instruction runs, for rows of a profile and labels of a trace; the same
// for all backends.
#pragma once

#include <span>

#include "meshwork/ir/graph.h"
#include "meshwork/runtime/exec/profile.h"
#include "meshwork/runtime/exec/trace.h"
#include "meshwork/runtime/plan/transfer.h"

namespace meshwork {

// One of the nodes that an instruction runs.
struct ProfiledNode {
  int node = -1;
  int reduces = -1;      // the all_reduce that it makes unnecessary; -1: none
  double instances = 1;  // whose work is done; parts of one count as such
};

// The row's op, place, cause and result, of one call.
ProfileRow RowOfNode(const Graph& local, int node);
// Names all nodes that run as one, and the all_reduces that they make unnecessary, and counts the work.
void AddNodes(const Graph& local, std::span<const ProfiledNode> nodes, ProfileRow& row);
// Counts what the transfers read and write.
void AddTransfers(std::span<const Transfer> transfers, ProfileRow& row);
// Adds the node's operands and results, "f32[16,700] of f32[128,700] {batch,_}" each, and the axes of a collective.
void AddValues(const Graph& local, int node, TraceLabel& label);

}  // namespace meshwork
