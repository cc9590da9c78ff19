// The search for layouts of a program, laid open: what choose_layouts weighs, and what it finds.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

// The search that choose_layouts begins with (spmd/choose_layouts.h) as text: the layouts that each value could have,
// the ways to run each op, and the tables of costs between them. It is that of the whole program, also where layers
// repeat. choose_layouts then searches a small program again, at several prices of a collective. It does not search a
// program in which nothing moves. Errors: those of Compile.
absl::StatusOr<std::string> DescribeSearch(const Graph& global, const CompileOptions& options = {});

}  // namespace meshwork
