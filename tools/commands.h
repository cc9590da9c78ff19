// The commands of the program meshwork, one file each: tools/<name>.cc.
//
// A command reads its arguments from args.argv[1..], prints its results to standard output and returns its
// error. FAILED_PRECONDITION is the answer "it does not hold", RESOURCE_EXHAUSTED that something is above a budget
// or the memory, and INTERNAL is a bug: these give exit code 1. All other errors are bad input: exit code 2.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "meshwork/base/flags.h"
#include "meshwork/spmd/compile.h"

namespace meshwork::tools {

struct Arguments {
  int argc;
  const char* const* argv;
};

absl::Status Compile(Arguments args);
absl::Status Explain(Arguments args);
absl::Status Verify(Arguments args);
absl::Status Run(Arguments args);
absl::Status Relayout(Arguments args);
absl::Status Ops(Arguments args);
absl::Status Format(Arguments args);
absl::Status ServeRendezvous(Arguments args);

// Adds the flags --memory-budget and --replication-budget, for all commands that compile.
void AddBudgets(FlagTable& flags, CompileOptions& options);

// Reads the arguments. A status that is returned ends the command: OK after --help is printed, or an error.
std::optional<absl::Status> Parse(FlagTable& flags, Arguments args);

}  // namespace meshwork::tools
