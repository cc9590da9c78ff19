// The programs of a saved program's functions, as a session makes them. Internal to this room.
//
// Pure functions; thread-safe.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/program.h"
#include "meshwork/session/saved/saved_program.h"

namespace meshwork {

std::set<std::string> VariablesOf(const Graph& graph);

// Completes the types of the functions' outputs, and their inputs, from the program. REQUIRES: it has the outputs.
void SignFunctions(const Graph& program, std::vector<SavedFunction>& functions);

// Calls `compile` for the global programs that a session of `program` asks for when functions are called with all rows:
// for the program itself, and then for each function that is another one, with variables as they lie in what the first
// call gave. Each program once. Errors: those of `compile`.
using CompileGlobal =
    std::function<absl::StatusOr<Program>(const Graph& global, const std::string& fingerprint)>;
absl::Status ForEachProgram(const Graph& program, const std::vector<SavedFunction>& functions,
                            const CompileGlobal& compile);

}  // namespace meshwork
