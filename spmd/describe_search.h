// The search for layouts of a program, laid open: what choose_layouts weighs, and what it finds.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

// The first search of choose_layouts (spmd/choose_layouts.h) for `global` as text: the layouts that each value could
// have, the ways to run each op, and the tables of costs between them. Of layers that repeat, all are shown that are
// looked at. Errors: those of Compile.
absl::StatusOr<std::string> DescribeSearch(const Graph& global, const CompileOptions& options = {});

}  // namespace meshwork
