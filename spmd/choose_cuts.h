// ChooseCuts says by which axes every op of a program runs.
//
// For each op, how each letter of its rule is cut: as operands and results agree, else the cheapest of what
// they offer, counting communication and arithmetic. A reshape that moves nothing (layout/reshape.h)
// needs no letters. Where operands of an op owe a sum and it would be cut by the axes of that, it runs on the
// sums as they are owed, if that is cheaper: what is scattered is then one sum, not each, or less than an
// operand (delay_scatters.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/rule.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/cut.h"
#include "meshwork/spmd/replication.h"

namespace meshwork {

// How one op will be run: its operands and results, but for what they owe.
struct Choice {
  Rule rule;
  LetterCuts cuts;
  PartialSet reduced;  // what its reduced letters leave owed
  std::vector<Layout> operands, results;

  AxisSet sharded() const;  // the axes of its operands and results
};

// Per node of a global program whose values all have whole layouts; nothing for a relayout, which runs as it
// says. Where the cheapest way gathers what `replication` refuses, an op runs on its operands as they lie, if
// it can, else the cheapest way that gathers only what the layouts imply. Each op is costed alone, unless
// `share`: then see share_relayouts.h.
std::vector<std::optional<Choice>> ChooseCuts(const Graph& graph, const Topology& topology,
                                              const Replication& replication, bool share = false);

// Every way to run one op that ChooseCuts weighs. REQUIRES: `node`, of `graph`, is no relayout.
std::vector<Choice> AllChoices(const Graph& graph, const Node& node, const Topology& topology,
                               const Replication& replication);

}  // namespace meshwork
