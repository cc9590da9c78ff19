// SolveLayouts finds the layouts of the values that nobody has pinned, and the ways to run the ops, with which a step
// costs least.
//
// Each value has a variable whose states are the layouts that it could have, alone or with one more form that is made
// of it and read by several ops; each op has a variable whose states are the ways to run it (layout_space.h). What a
// step costs is then a sum of tables of two variables: an op's result brought into the value's layout, a value read as
// an op needs it; and of an op's arithmetic. Minimize (spmd/solver/min_sum.h) finds the least sum: exactly, if eliminating
// the variables takes no more than it may.
//
// Of layers that repeat only the first and the last ones are looked at (fold_repeats.h), and the others run as one of
// these.
//
// Layouts of minimum cost by elimination: Alpa (arXiv 2201.12023, section 4) states the same problem as an integer
// program. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/layout_space.h"
#include "meshwork/spmd/planner/replication.h"

namespace meshwork {

struct SolvedLayouts {
  Graph propagated;                            // every value has a layout
  std::vector<std::optional<Layout>> others;   // per value: the further form that is made of it
  std::vector<std::optional<Choice>> choices;  // how each op runs, nothing for relayouts (InsertOwing)
  std::vector<std::string> decisions;          // where values lie otherwise than before, a line each
  double cost = 0;                             // seconds
  double lower_bound = 0;                      // no other costs less, of those that are looked at
  bool is_optimal = false;                     // the cost is the bound
  bool is_cut_off = false;                     // there were more layouts than are looked at (LayoutSpace)
  bool is_better = false;  // it costs less than the program as it is; else it is as that is
};

struct SolveOptions {
  OpenAxes open = {};  // of layouts (layout_space.h)
  // What a byte costs that a device holds for long: of an argument, or of a value that is read much later than it is
  // made, as gradients read what the forward pass has made.
  double byte_seconds = 0;
  CollectivePrice price = {};
  bool may_compute_more = false;  // products may run on fewer devices than before
  // What stands for others costs as often, and is also read by what reads these: the cost is that of the whole step. The
  // search is wider then.
  bool counts_all = false;
  // Which layers stand for others; null: RepeatsOf. Costs of searches with one fold can be compared.
  const Fold* fold = nullptr;
  // Entries of all tables: a program with more, on a mesh of several axes, is left as it is.
  size_t max_table_entries = 4'000'000;
  int64_t max_entries = 20'000'000;  // see MinSumOptions
  // Of another search with the same fold: where this one starts. The result costs no more, as far as its layouts are looked at.
  const SolvedLayouts* start = nullptr;
};

// Values that are pinned alike, and a layout that all of them could have instead.
struct PinChange {
  std::vector<ValueId> values;
  Layout layout;
};

// Whether the search knows all of a program, whose `loops` are opened: no manual region, which says itself how its
// values lie, and no relayout that takes a dim as it is, which follows its operand.
bool MaySolveLayouts(const Graph& pinned, std::span<const OpenedLoop> loops);

// The layers of the program that SolveLayouts looks at; arguments as there. kept: see SkipRepeats.
Fold RepeatsOf(const Graph& pinned, const Graph& propagated,
               const std::vector<std::optional<Choice>>& choices, const Replication& replication,
               int kept = 2);

// `pinned`: a global program, its loops opened; `propagated`: Propagate's result for it; `choices`: how its ops run now,
// nothing for relayouts. Nothing if the tables would be too large, or a gather that is refused stays.
std::optional<SolvedLayouts> SolveLayouts(const Graph& pinned, const Graph& propagated,
                                          const std::vector<std::optional<Choice>>& choices,
                                          const Topology& topology, const Replication& replication,
                                          const SolveOptions& options = {});

// Per change of pins: how many seconds more the operations of a step take than with the pins as they are, as far as only what
// is near changes with it (spmd/solver/near_sums.h): values that nobody has pinned, and ops. Other arguments as there; changes of
// the same values follow each other. Infinite where the search does not know such a layout. Nothing as above.
std::optional<std::vector<double>> CostsOfChanges(const Graph& pinned, const Graph& propagated,
                                                  const std::vector<std::optional<Choice>>& choices,
                                                  const Topology& topology, double collective_seconds,
                                                  std::span<const PinChange> changes);

}  // namespace meshwork
