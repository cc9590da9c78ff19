// SolveLayouts finds the layouts of the values that nobody has pinned, and the ways to run the ops, with which a step
// costs least.
//
// Each value has a variable whose states are the layouts that it could have, alone or with one more form that is made
// of it and read by several ops; each op has a variable whose states are the ways to run it (layout_space.h). The cost
// of a step is then a sum of tables. Tables of two variables say what it costs to bring an op's result into the value's
// layout, and a value into the layout in which an op reads it. Tables of one variable say what an op's arithmetic
// costs. Minimize (spmd/solver/min_sum.h) finds the least sum: exactly, if eliminating the variables takes no more than
// it may.
//
// If layers repeat, only the first and the last ones are looked at (fold_repeats.h), and the others run as one of
// these.
//
// Layouts of minimum cost by elimination: Alpa (arXiv 2201.12023, section 4) states the same problem as an integer
// program. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <limits>
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
#include "meshwork/spmd/planner/work.h"

namespace meshwork {

struct SolvedLayouts {
  Graph propagated;                            // every value has a layout
  std::vector<std::optional<Layout>> others;   // per value: the further form that is made of it
  std::vector<std::optional<Choice>> choices;  // how each op runs, nothing for relayouts (InsertOwing)
  std::vector<std::string> decisions;          // changed layouts of values, a line each
  double cost = 0;                             // seconds
  double lower_bound = 0;                      // no layouts that are looked at cost less
  bool is_optimal = false;                     // the cost is the bound
  bool is_cut_off = false;                     // there were more layouts than are looked at (LayoutSpace)
  bool is_better = false;  // it costs less than the program as it is; otherwise nothing is changed
};

struct SolveOptions {
  OpenAxes open = {};  // of layouts (layout_space.h)
  // The price of a byte that a device holds for long: of an argument, or of a value that is read much later than it is
  // made, such as the activations that the backward pass reads.
  double byte_seconds = 0;
  CollectivePrice price = {};
  bool may_compute_more = false;  // products may always run on fewer devices than before
  // Counts all layers, those that are left out as the ones that stand for them (FoldCounts), so that the cost is that
  // of the whole step. The search is wider then.
  bool counts_all = false;
  // Which layers stand for others; null: RepeatsOf. Costs of searches with one fold can be compared.
  const Fold* fold = nullptr;
  // What this search draws on; null: what a compile may take. A program whose tables would have too many entries is
  // left as it is.
  SearchWork* work = nullptr;
  size_t max_table_entries = std::numeric_limits<size_t>::max();  // if it may take fewer
  double max_entries = std::numeric_limits<double>::infinity();   // likewise, of the solver (MinSumOptions)
  // The result of another search with the same fold, from which this one starts. The result costs no more, if this
  // search looks at the same layouts.
  const SolvedLayouts* start = nullptr;
  // As the program is laid out now, weights are gathered that must not be: other values are gathered instead, but not
  // cut along other dims.
  bool gathers_bound_weights = false;
  std::string* text = nullptr;  // gets all that the search weighs (search_text.h); null: not asked for
};

// Values that are pinned alike, and a layout that all of them could have instead.
struct PinChange {
  std::vector<ValueId> values;
  Layout layout;
};

// The layers of the program that SolveLayouts looks at; arguments as there. kept: see SkipRepeats.
Fold RepeatsOf(const Graph& pinned, const Graph& propagated,
               const std::vector<std::optional<Choice>>& choices, const Replication& replication,
               int kept = 2);

// `pinned`: a global program, its loops opened; `propagated`: Propagate's result for it; `choices`: how its ops run
// now, nothing for relayouts. Nothing if the tables would be too large, or a gather that is refused stays.
std::optional<SolvedLayouts> SolveLayouts(const Graph& pinned, const Graph& propagated,
                                          const std::vector<std::optional<Choice>>& choices,
                                          const Topology& topology, const Replication& replication,
                                          const SolveOptions& options = {});

// Per change of pins: how many seconds longer a step takes to send than with the pins as they are. Values that nobody
// has pinned, and ops, change with the pins if they are near (spmd/solver/near_sums.h). Infinite if the search does not
// look at such a layout. Nothing if the tables would be too large. Other arguments: as for SolveLayouts. REQUIRES:
// changes of the same values follow each other.
std::optional<std::vector<double>> CostsOfChanges(const Graph& pinned, const Graph& propagated,
                                                  const std::vector<std::optional<Choice>>& choices,
                                                  const Topology& topology, double collective_seconds,
                                                  std::span<const PinChange> changes);

}  // namespace meshwork
