// ChooseLayouts looks for layouts of the values that nobody has pinned, and for ways to run the ops, with which a
// step costs less than with those that Propagate guessed (spmd/planner/solve_layouts.h).
//
// What SolveLayouts finds is kept if the program made from it sends less than the one that there is, or gathers nothing
// that is refused where that one does.
//
// A program of at most 32 ops on few axes is then searched once more, with all layouts of even blocks for its values. Not
// for its outputs and variables: no one expects these in blocks that no pin reaches. The search adds up what is sent, and
// does not know when more collectives are too many, nor which of them run together as one. So it is asked several times,
// with another price of a collective each time; every program found is made, and the one that sends least is kept. Larger
// programs are left to the first search.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/planner/replication.h"

namespace meshwork {

struct ChosenLayouts {
  Graph propagated;  // every value has a layout
  InsertedRelayouts inserted;
  std::vector<std::string> decisions;  // where values lie otherwise than before, a line each
};

// Whether `a` gathers nothing that is refused, and `b` does, or `a` sends less; if that takes more collectives, half of the
// bytes at most. Or it sends as much, in no more collectives: in fewer, for no more arithmetic, or for less of it by a tenth.
// Not if `a` needs more memory than there is, and than `b`.
bool SendsLess(const InsertedRelayouts& a, const InsertedRelayouts& b, const std::vector<OpenedLoop>& loops,
               const Topology& topology, int64_t memory_budget);

// `propagated`: Propagate's result for `pinned`, whose `loops` are opened; `now`: what is made of it. Nothing if no
// layouts are found that cost less, and for programs with manual regions. memory_budget: bytes per device (see
// CompileOptions); what needs more is chosen only if it needs no more than `now`. 0: there is none. is_short:
// the program stands for one of more layers (short_program.h), so that it is not small.
std::optional<ChosenLayouts> ChooseLayouts(const Graph& pinned, const Graph& propagated,
                                           const InsertedRelayouts& now, const std::vector<OpenedLoop>& loops,
                                           const Topology& topology, const Replication& replication,
                                           int64_t memory_budget, bool is_short = false);

}  // namespace meshwork
