// The commands of the program meshwork, one file each: tools/<name>.cc.
//
// A command reads its arguments from args.argv[1..], prints its results to standard output and returns its
// error. FAILED_PRECONDITION means that the answer is "it does not hold", RESOURCE_EXHAUSTED that something is above a
// budget or the memory, and INTERNAL is a bug: these give exit code 1. All other errors are bad input: exit code 2.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/flags.h"
#include "meshwork/ir/program.h"
#include "meshwork/spmd/compile.h"

namespace meshwork::tools {

struct Arguments {
  int argc;
  const char* const* argv;
};

absl::Status Compile(Arguments args);
absl::Status Explain(Arguments args);
absl::Status Report(Arguments args);
absl::Status Verify(Arguments args);
absl::Status Run(Arguments args);
absl::Status Save(Arguments args);
absl::Status Predict(Arguments args);
absl::Status Plan(Arguments args);
absl::Status Simulate(Arguments args);
absl::Status Relayout(Arguments args);
absl::Status Ops(Arguments args);
absl::Status Devices(Arguments args);
absl::Status Format(Arguments args);
absl::Status ServeRendezvous(Arguments args);
absl::Status Checkpoints(Arguments args);
absl::Status Import(Arguments args);
// Ends this program with the exit code of the command that it starts. Returns only if it starts none.
absl::Status Supervise(Arguments args);

struct Command {
  const char* name;
  const char* summary;
  absl::Status (*run)(Arguments args);
  bool is_table = false;  // the command has commands of its own, and its errors begin with its name
};

struct CommandTable {
  std::string_view program;  // "meshwork"
  std::string_view about;    // how its help begins
  std::span<const Command> commands;
  std::string_view end;  // how its help ends
};

// Runs the command that args.argv[1] names, with the arguments from there on; or prints the help. Errors: no command,
// or a command that is not in the table; that of the command, with "meshwork compile: " in front.
absl::Status RunOneOf(const CommandTable& table, Arguments args);

// Adds the flags --memory-budget and --replication-budget, for all commands that compile.
void AddBudgets(FlagTable& flags, CompileOptions& options);
// Adds these and --shard-weight-update, --narrow-sums and --topology, for commands that report on a compile.
void AddCompile(FlagTable& flags, CompileOptions& options, std::string& topology);

// Compiles. A memory budget that cannot be met is bad input.
absl::StatusOr<Program> CompileWithin(const Graph& global, const CompileOptions& options);

// Reads the arguments. A status that is returned ends the command: OK after --help is printed, or an error.
std::optional<absl::Status> Parse(FlagTable& flags, Arguments args);

}  // namespace meshwork::tools
