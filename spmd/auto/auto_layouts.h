// Layouts that nobody has to name: FindLayouts gives every input and variable of a program a layout with which a step
// takes little time, within what memory devices have, on top of what the user has pinned.
//
//   MESHWORK_ASSIGN_OR_RETURN(const std::vector<FoundLayouts> found,
//                             FindLayouts(graph, {.memory_budget = int64_t{16} << 30, .topology = topology}));
//   Compile(found[0].graph, {.topology = topology})     // the fastest, with its pins
//
// The search is SolveLayouts (spmd/planner/solve_layouts.h) with arguments open. In a small program, layouts of its
// arguments are then compiled one by one, which finds what the search does not know (try_arguments.h). In the search,
// each byte that a device holds has a price in seconds. With a higher price, weights and their state are laid out over
// more devices, and gathered for each op that reads them (ZeRO stage 3). A few prices are tried, and each plan is
// compiled. A plan that does not fit is dropped, unless Compile can plan it again so that it fits, and it is then
// faster than the plans that fit as they are: on slow links, computing a value again for a late reader takes less time
// than a layout that holds less.
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

  // The program, with a pin for every argument; arguments that are faster without one stay as they are.
  Graph graph;
  std::vector<Pin> pins;       // those that the user has not given
  StepCost cost;               // of the compiled step
  double compute_seconds = 0;  // its floating-point operations
  // The part of seconds() by which a step could take less time: no layouts of even blocks for the arguments give one
  // that takes less than (1 - gap) * seconds(). It is 0 where all of them were compiled and no plan that also pins
  // values inside is faster. Otherwise the bound is that of a search in which latencies do not count and nothing has to
  // fit; or, if there are too many layouts, or Compile may change the program in ways that the search does not know,
  // the time of the operations alone, shared by all devices. The search does not know sums in another order
  // (spmd/regroup_sums.h), nor more than one further form of a value; in programs of more than 32 ops it looks at axes
  // of one dim in the order of the mesh only. Where a plan is faster than the bound, the operations alone are the
  // bound.
  double gap = 0;
  // The plan fits only because Compile plans it again for the memory budget (spmd/local/fit_memory.h): in another
  // order, with smaller collectives, with values computed again. `cost` and `compute_seconds` are those of that
  // program.
  bool is_fitted = false;
  double seconds() const { return cost.seconds + compute_seconds; }

  // The better plan: that of the faster step; of equally fast ones, that which needs less memory; then the cheaper
  // step.
  friend bool operator<(const FoundLayouts& a, const FoundLayouts& b);
};

struct FindLayoutsOptions {
  int most = 3;  // plans that are returned
  // Layouts of the arguments of a small program are also compiled one by one (try_arguments.h). About how many ops
  // these programs together have; 0: none is compiled.
  int64_t most_tried = 4096;
};

// `options`: those of the compile that is asked for; verify and dump are ignored. Values that a plan gathers beyond the
// replication budget are marked gather=allowed in it.
// Returns plans that fit into options.memory_budget, the fastest first, each with other pins. Errors: those of Compile,
// for the program as it is pinned; RESOURCE_EXHAUSTED: no plan fits, with the least memory that one needs.
// The fastest takes no longer than what Compile makes of the program as it is pinned.
absl::StatusOr<std::vector<FoundLayouts>> FindLayouts(const Graph& graph, const CompileOptions& options = {},
                                                      const FindLayoutsOptions& find = {});

}  // namespace meshwork
