// The end of every simulation (tools/simulate/simulate.h, tools/simulate/process.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/tools/simulate/machine.h"
#include "meshwork/tools/simulate/simulate.h"

namespace meshwork {

// Adds the machine's step_seconds, the memory over time, and what limits the step. `passed`: when the device came by each
// node of `local`, and by the end.
Simulation FinishSimulation(const Graph& local, Simulation step, const std::vector<double>& passed,
                            const Machine& machine);

// "all_reduce over (batch)". REQUIRES: a collective of `local`.
std::string NameOfCollective(const Graph& local, const Node& node);

// Percent of the whole; 0 of nothing.
inline double PercentOf(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// Errors: a time is not finite, with the first op that is not.
absl::Status CheckTimes(const Graph& local, const Machine& machine, const Simulation& step);

// Simulation::limit, by its spans and times. The links limit a step that waits longer than it computes.
std::string LimitOf(const Simulation& step);

}  // namespace meshwork
