// ChooseCuts chooses the axes along which every op of a program runs.
//
// For each op it chooses how each letter of its rule is cut: as operands and results agree, else the cheapest
// of the cuts that they offer, counting communication and arithmetic. A reshape that moves nothing
// (layout/reshape.h) needs no letters. If operands of an op owe a sum, and the op would be cut by the axes of
// this sum, the op runs on the partial operands if that is cheaper: then one sum is scattered instead of each
// operand's, or a result smaller than an operand (delay_scatters.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/rule.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/replication.h"

namespace meshwork {

// How one op will be run: the layouts of its operands and results, except for what they owe.
struct Choice {
  std::shared_ptr<const Rule> rule;  // null only in an empty Choice
  LetterCuts cuts;
  PartialSet reduced;  // what its reduced letters leave owed; if LayoutSpace made it, also what operands owe
  absl::InlinedVector<Layout, 2> operands, results;

  AxisSet sharded() const;  // the axes of its operands and results
};

// The choice for each node of a global program whose values all have whole layouts; nothing for a relayout,
// whose layouts are given. If the cheapest way gathers a value that `replication` refuses, the op runs on its
// operands as they lie, if it can, else in the cheapest way that gathers only what the layouts imply. Each op
// is costed alone.
std::vector<std::optional<Choice>> ChooseCuts(const Graph& graph, const Topology& topology,
                                              const Replication& replication);

}  // namespace meshwork
