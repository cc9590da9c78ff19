// The end of every simulation (tools/simulate/simulate.h, tools/simulate/process.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/plan/step_clock.h"
#include "meshwork/tools/simulate/machine.h"
#include "meshwork/tools/simulate/simulate.h"

namespace meshwork {

// The simulation of items that took these times, with the machine's step_seconds, the memory over time, and the limit
// of the step. `spans`: by label. `passed`: the time at which the device reached each node of `local`, and then the
// end.
Simulation FinishSimulation(const Graph& local, const StepTimes& times,
                            const std::vector<SimulatedSpan>& spans, const std::vector<double>& passed,
                            const Machine& machine);

// "all_reduce over (batch)". REQUIRES: a collective of `local`.
std::string NameOfCollective(const Graph& local, const Node& node);

// Percent of the whole; 0 if the whole is 0.
inline double PercentOf(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// Error: a time is not finite; names the first such op.
absl::Status CheckTimes(const Graph& local, const Machine& machine, const Simulation& step);

// Simulation::limit, from the spans and times. The links limit a step that waits longer than it computes.
std::string LimitOf(const Simulation& step);

}  // namespace meshwork
