// InsertRelayouts makes every op's operands meet its rule.
//
// It puts `relayout` nodes where a value has another layout than an op reads or a user wants
// (spmd/planner/choose_cuts.h says how each op runs). A sharded letter that is reduced leaves the result *partial*. A
// partial value passes through linear ops as long as every reader can take it and it does not grow (unless it meets a
// sum that is owed anyway), and is summed where an op needs the whole. So a sum of sums is one sum, and a gradient is
// summed once.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/replication.h"
#include "meshwork/spmd/refused_gathers.h"

namespace meshwork {

// `graph`: a global program whose values all have whole layouts (see Propagate). In the result a value's
// layout is the one that its op yields, including partials, and every op's operands fit its rule.
Graph InsertRelayouts(const Graph& graph, const Topology& topology = {});

struct InsertedRelayouts {
  // A relayout that is not dead code.
  struct Moved {
    ValueId value = kNoValue;  // of the global program
    int node = -1;             // of the global program: the op that needs or gives the value; -1: none
    double seconds = 0;        // see RelayoutSeconds
  };

  Graph graph;
  std::vector<RefusedGather> refused;  // gathers in the result that are not allowed
  std::vector<std::optional<Choice>> choices;
  std::vector<Moved> moved;
};
// Whether weights are gathered that must not be.
bool GathersBoundWeights(const InsertedRelayouts& inserted, const Replication& replication);

// As the first one. If the cheapest way to run an op gathers a value that `replication` refuses, the op runs on its
// operands as they lie, if it can; gathers that are still refused then are returned.
InsertedRelayouts InsertRelayouts(const Graph& graph, const Topology& topology,
                                  const Replication& replication);
// As above; ops run as `choices` say (see ChooseCuts).
InsertedRelayouts InsertRelayouts(const Graph& graph, const Topology& topology,
                                  const Replication& replication, std::vector<std::optional<Choice>> choices);
// As above; the layouts of `graph` and of `choices` say what values owe, too (spmd/planner/layout_space.h).
InsertedRelayouts InsertOwing(const Graph& graph, const Topology& topology, const Replication& replication,
                              std::vector<std::optional<Choice>> choices);

}  // namespace meshwork
