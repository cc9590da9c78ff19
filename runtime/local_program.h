// What a local program must be for the executor to run it. Compiled programs are; hand-written and
// loaded ones are checked here, before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

class Backend;

// The most virtual devices of one domain.
inline constexpr int64_t kMaxVirtualDevices = 4096;

// Errors: a domain of too many devices, of so many; a value without layout or whose block is not its
// layout's; an op that is no part of a local program; an input, variable or output that is partial; an update
// of another type or layout than its variable, or a second one; an output name used twice.
absl::Status CheckLocalProgram(const Graph& local, int64_t num_domains = 1);

// Of a program in the order in which it runs, loops lowered (runtime/loop.h). Error: an op of which the
// backend has no kernel.
absl::Status CheckKernels(const Graph& ordered, const Backend& backend);

// Outputs without a name are called by their position, "0", "1", ….
std::string OutputName(const Graph& local, int output);

}  // namespace meshwork
