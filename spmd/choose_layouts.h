// ChooseLayouts looks for layouts of the values that nobody has pinned, and for ways to run the ops, with which a
// step costs less than with those that Propagate guessed.
//
// Each value has a variable whose states are the layouts that it could have, alone or with one more form that is made
// of it and read by several ops; each op has a variable whose states are the ways to run it (layout_space.h). What a
// step costs is then a sum of tables of two variables: an op's result brought into the value's layout, a value read as
// an op needs it; and of an op's arithmetic. Minimize (search/min_sum.h) finds the least sum: exactly, if eliminating
// the variables takes no more than it may. What it finds is kept if the program made from it sends less than the one
// that there is, or gathers nothing that is refused where that one does.
//
// Of layers that repeat only the first and the last ones are looked at (fold_repeats.h), and the others run as one of
// these.
//
// Layouts of minimum cost by elimination: Alpa (arXiv 2201.12023, section 4) states the same problem as an integer
// program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "meshwork/control/loops.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/replication.h"

namespace meshwork {

struct ChosenLayouts {
  Graph propagated;  // every value has a layout
  InsertedRelayouts inserted;
  std::vector<std::string> decisions;  // where values lie otherwise than before, a line each
};

// `propagated`: Propagate's result for `pinned`, whose `loops` are opened; `now`: what is made of it. Nothing if no
// layouts are found that cost less, and for programs with manual regions. memory_budget: bytes per device (see
// CompileOptions); what needs more is chosen only if it needs no more than `now`. 0: there is none.
std::optional<ChosenLayouts> ChooseLayouts(const Graph& pinned, const Graph& propagated,
                                           const InsertedRelayouts& now, const std::vector<OpenedLoop>& loops,
                                           const Topology& topology, const Replication& replication,
                                           int64_t memory_budget);

}  // namespace meshwork
