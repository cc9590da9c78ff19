// ChooseLayouts looks for layouts of the values that nobody has pinned, and for ways to run the ops, with which a
// step costs less than with those that Propagate guessed (spmd/planner/solve_layouts.h).
//
// The layouts that SolveLayouts finds are kept if the program made from them sends less than the present program, or
// makes no refused gather although the present program makes one.
//
// A program of at most 32 ops on few axes is then searched once more, with all layouts of even blocks for its values,
// except for outputs and variables: nobody expects these in blocks that no pin reaches. The search adds up what is
// sent. It does not know when more collectives are too many, nor which of them run together as one. So it runs several
// times, each time with another price of a collective. Every program found is made, and the one that sends least is
// kept. Larger programs are left to the first search.
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
#include "meshwork/spmd/planner/work.h"

namespace meshwork {

struct ChosenLayouts {
  Graph propagated;  // every value has a layout
  InsertedRelayouts inserted;
  std::vector<std::string> decisions;  // changed layouts of values, a line each
};

// The local program, with `loops` closed.
Graph LocalOf(const InsertedRelayouts& inserted, const std::vector<OpenedLoop>& loops,
              const Topology& topology);

// Whether `a` should replace `b`. Never, if `a` makes a refused gather; always, if only `b` makes one. Not, if `a`
// needs more memory than the budget and than `b`. Otherwise, by a known topology, if `a` takes less time. By the
// assumed topology:
//   - if `a` sends fewer bytes, in no more collectives, or at most half of the bytes;
//   - if both send the same bytes, `a` in no more collectives, and `a` either computes less by a tenth, or has fewer
//     collectives and computes no more.
bool SendsLess(const InsertedRelayouts& a, const InsertedRelayouts& b, const std::vector<OpenedLoop>& loops,
               const Topology& topology, int64_t memory_budget);

// `propagated`: Propagate's result for `pinned`, whose `loops` are opened; `now`: the program made of it. Nothing if no
// layouts are found that cost less. memory_budget: bytes per device (see
// CompileOptions), 0: no limit; layouts that need more are chosen only if they need no more than `now`. is_short: the
// program stands for one of more layers (short_program.h), so it does not count as small. work: what the searches draw
// on (planner/work.h).
std::optional<ChosenLayouts> ChooseLayouts(const Graph& pinned, const Graph& propagated,
                                           const InsertedRelayouts& now, const std::vector<OpenedLoop>& loops,
                                           const Topology& topology, const Replication& replication,
                                           int64_t memory_budget, bool is_short, SearchWork& work);

}  // namespace meshwork
