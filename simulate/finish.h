// The end of every simulation (simulate/simulate.h, simulate/process.h).
#pragma once

#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/simulate/machine.h"
#include "meshwork/simulate/simulate.h"

namespace meshwork {

// Adds the machine's step_seconds, the memory over time, and what limits the step. `passed`: when the device came by each
// node of `local`, and by the end.
Simulation FinishSimulation(const Graph& local, Simulation step, const std::vector<double>& passed,
                            const Machine& machine);

// Simulation::limit, by its spans and times. The links limit a step that waits longer than it computes.
std::string LimitOf(const Simulation& step);

}  // namespace meshwork
