// What may be bound to a program: a tensor per input, and tensors for its outputs, all apart: host tensors,
// or DTensors where they are `distributed` (ExecutorOptions::distributed).
//
// Errors name the tensor, what it is, and what the program takes. Pure functions; thread-safe.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/bound_step.h"

namespace meshwork {

// Errors: a feed that is missing, unknown, a variable, empty, or of another type; one that is distributed and
// is given as a host tensor, or the reverse.
absl::Status CheckFeeds(const Graph& local, const std::set<std::string>& distributed,
                        const StepMemory& memory);

// Some of the outputs, or all. Errors: one that is unknown, empty, of another type, or lies where a feed or
// another output lies; one that is distributed and is given as a host tensor, or the reverse.
absl::Status CheckOutputs(const Graph& local, const std::set<std::string>& distributed,
                          const StepMemory& memory);

// The DTensors among them. Errors: another type, layout or domain; an output that lies where another DTensor
// lies.
absl::Status CheckDTensors(const Graph& local, const Domain& domain, const StepMemory& memory);

// The input, or the output, called `name`. Error: there is none.
absl::StatusOr<ValueId> FindInput(const Graph& local, std::string_view name);
absl::StatusOr<ValueId> FindOutput(const Graph& local, std::string_view name);

}  // namespace meshwork
