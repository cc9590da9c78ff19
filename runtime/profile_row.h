// What a row of a profile, and the label of an event in a trace, say of the nodes that an instruction runs, whatever backend
// ran it.
#pragma once

#include <span>

#include "meshwork/ir/graph.h"
#include "meshwork/runtime/profile.h"
#include "meshwork/runtime/trace.h"
#include "meshwork/runtime/transfer.h"

namespace meshwork {

// One of the nodes that an instruction runs.
struct ProfiledNode {
  int node = -1;
  int reduces = -1;      // the all_reduce that it makes unnecessary; -1: none
  double instances = 1;  // whose work is done; parts of one count as such
};

// The row's op, place, cause and result, of one call.
ProfileRow RowOfNode(const Graph& local, int node);
// Names all that runs as one, what it does away with, too, and counts its work.
void AddNodes(const Graph& local, std::span<const ProfiledNode> nodes, ProfileRow& row);
// Counts what the transfers read and write.
void AddTransfers(std::span<const Transfer> transfers, ProfileRow& row);
// Adds the node's operands and results, "f32[16,700] of f32[128,700] {batch,_}" each, and the axes of a collective.
void AddValues(const Graph& local, int node, TraceLabel& label);

}  // namespace meshwork
