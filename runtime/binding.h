// What may be bound to a program: a tensor per input, and tensors for its outputs, all apart: host tensors,
// or DTensors where they are `distributed` (ExecutorOptions::distributed).
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
#include "meshwork/runtime/bound_step.h"
#include "meshwork/runtime/executor_options.h"

namespace meshwork {

// Errors: a feed that is missing, unknown, a variable, empty, or of another type; one that is distributed and
// is given as a host tensor, or the reverse.
absl::Status CheckFeeds(const Graph& local, const std::set<std::string>& distributed,
                        const StepMemory& memory);

// Some of the outputs, or all. Errors: one that is unknown, empty, or of another type; one that is
// distributed and is given as a host tensor, or the reverse.
absl::Status CheckOutputs(const Graph& local, const std::set<std::string>& distributed,
                          const StepMemory& memory);

// The DTensors among them. Errors: another type, layout or domain; one that lies in another memory than
// `lies`.
absl::Status CheckDTensors(const Graph& local, const Domain& domain, const Memory& lies,
                           const StepMemory& memory);

// Error: what is written – an output, a variable, a feed that an output replaces – lies where something else
// lies that is bound. `state`: the variables of the program.
absl::Status CheckApart(const Graph& local, const InPlace& in_place,
                        const std::map<std::string, DTensor>& state, const StepMemory& memory);

// The input, or the output, called `name`. Error: there is none.
absl::StatusOr<ValueId> FindInput(const Graph& local, std::string_view name);
absl::StatusOr<ValueId> FindOutput(const Graph& local, std::string_view name);

}  // namespace meshwork
