// The conditions under which the executor runs a local program. Compiled programs meet them; hand-written and
// loaded ones are checked here, before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// The most virtual devices of one domain.
inline constexpr int64_t kMaxVirtualDevices = 4096;

// Errors: one of `num_domains` domains has too many devices; a value without layout or whose block is not its
// layout's; an op that is not allowed in local programs; an input, variable or output that is partial; an
// update of another type or layout than its variable, or a second update of it; an output name used twice.
absl::Status CheckLocalProgram(const Graph& local, int64_t num_domains = 1);

// The name of an output; outputs without a name are named by their position, "0", "1", ….
std::string OutputName(const Graph& local, int output);

}  // namespace meshwork
