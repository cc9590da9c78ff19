// Layouts that nobody has to name: FindLayouts gives every input and variable of a program a layout with which a step
// takes little time, within what memory devices have, on top of what the user has pinned.
//
//   MESHWORK_ASSIGN_OR_RETURN(const std::vector<FoundLayouts> found,
//                             FindLayouts(graph, {.memory_budget = int64_t{16} << 30, .topology = topology}));
//   Compile(found[0].graph, {.topology = topology})     // the fastest, with its pins
//
// The search is SolveLayouts (spmd/planner/solve_layouts.h) with arguments open. There, each byte that a device holds
// has a price in seconds. With a higher price, weights and their state are laid out over more devices, and gathered for
// each op that reads them (ZeRO stage 3). A few prices are tried, and each plan is compiled. A plan that does not fit
// is dropped, unless Compile can plan it again so that it fits, and it is then faster than the plans that fit as they
// are: on slow links, computing a value again for a late reader takes less time than a layout that holds less.
//
// Times are those of the topology: of collectives, and of floating-point operations, one after the other. With the
// assumed topology they compare layouts and predict nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/plan/step_cost.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

struct FoundLayouts {
  struct Pin {
    std::string name;    // of an input or a variable
    std::string layout;  // the text form, "{batch,_}"
    bool gathers;        // kept so, and gathered for each op that reads it

    bool operator==(const Pin&) const = default;
  };

  Graph graph;                 // the program, with a pin for every argument
  std::vector<Pin> pins;       // those that the user has not given
  StepCost cost;               // of the compiled step
  double compute_seconds = 0;  // its floating-point operations
  // The part of the search's cost by which the cost could be lower. 0: it is the least of all layouts that are looked
  // at. In these, a value has at most one further form; on meshes of more than two axes, only some of the further
  // forms, and of the layouts that owe a sum, are looked at. If there are too many layouts, the lower bound is the time
  // of the operations alone. 1: nothing is known, for instance because a manual region lays out its values itself.
  double gap = 0;
  // The plan fits only because Compile plans it again for the memory budget (spmd/local/fit_memory.h): in another
  // order, with smaller collectives, with values computed again. `cost` and `compute_seconds` are those of that
  // program.
  bool is_fitted = false;
  double seconds() const { return cost.seconds + compute_seconds; }

  // The better plan: that of the faster step; of equally fast ones, that which needs less memory; then the cheaper step.
  friend bool operator<(const FoundLayouts& a, const FoundLayouts& b);
};

struct FindLayoutsOptions {
  int most = 3;  // plans that are returned
};

// `options`: those of the compile that is asked for; verify and dump are ignored. Values that a plan gathers beyond the
// replication budget are marked gather=allowed in it.
// Returns plans that fit into options.memory_budget, the fastest first, each with other pins. Errors: those of Compile,
// for the program as it is pinned; RESOURCE_EXHAUSTED: no plan fits, with the least memory that one needs.
absl::StatusOr<std::vector<FoundLayouts>> FindLayouts(const Graph& graph, const CompileOptions& options = {},
                                                      const FindLayoutsOptions& find = {});

}  // namespace meshwork
