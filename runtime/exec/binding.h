// Checks of the tensors that are bound to a program: one per input, and one for each wanted output, none of
// them overlapping. They are host tensors, or DTensors if `distributed` (ExecutorOptions::distributed).
//
// Errors name the tensor, what it is, and what the program takes. Pure functions; thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/exec/bound_step.h"
#include "meshwork/runtime/exec/executor_options.h"

namespace meshwork {

// Errors: a feed that is missing, unknown, a variable, empty, or of another type; a distributed input that is
// given as a host tensor, or the reverse.
absl::Status CheckFeeds(const Graph& local, const std::set<std::string>& distributed,
                        const StepMemory& memory);

// For all or some of the outputs. Errors: an output that is unknown, empty, or of another type; a distributed
// output that is given as a host tensor, or the reverse.
absl::Status CheckOutputs(const Graph& local, const std::set<std::string>& distributed,
                          const StepMemory& memory);

// Checks the DTensors among feeds and outputs. Errors: another type, layout or domain; another memory than
// `lies`.
absl::Status CheckDTensors(const Graph& local, const Domain& domain, const Memory& lies,
                           const StepMemory& memory);

// Errors: a staged tensor that is not the one which is fed, or lies in another memory than `lies`.
absl::Status CheckStaged(const Memory& lies, const StepMemory& memory);

// Error: memory that is written – an output, a variable, a feed that an output replaces – overlaps other
// bound memory. `state`: the variables of the program.
absl::Status CheckApart(const Graph& local, const InPlace& in_place,
                        const std::map<std::string, DTensor>& state, const StepMemory& memory);

// The input, or the output, called `name`. Error: there is no such input or output.
absl::StatusOr<ValueId> FindInput(const Graph& local, std::string_view name);
absl::StatusOr<ValueId> FindOutput(const Graph& local, std::string_view name);

}  // namespace meshwork
