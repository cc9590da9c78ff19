// The variables that a program shares with a session (Session::Share). Only this room uses it.
#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/exec/dtensor.h"

namespace meshwork {

// OK if `graph` may share these variables, by name, which lie on the mesh of `program`. atomic: the steps of their session
// take effect as a whole (ExecutorOptions::atomic).
absl::Status CheckCanShare(const Graph& graph, const Graph& program,
                           const std::map<std::string, DTensor>& variables, bool atomic);
// Has `graph` take the variables that it shares where they lie. Returns the names of the others.
std::set<std::string> ShareVariables(const std::map<std::string, DTensor>& variables, Graph& graph);

}  // namespace meshwork
