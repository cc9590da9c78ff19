// meshwork: what the library does with programs in their text form, from a shell. See --help.
//
// Exit code 0: success. 1: the answer is no (a certificate that does not hold, a text that is not formatted),
// or something failed on the way. 2: the input is wrong. Messages go to standard error, results to standard
// output.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/base/version.h"
#include "tools/commands.h"

namespace meshwork::tools {
namespace {

struct Command {
  const char* name;
  const char* summary;
  absl::Status (*run)(Arguments args);
};

constexpr Command kCommands[] = {
    {"compile", "compile a program and print what comes out, or what is known about it", Compile},
    {"explain", "say which collectives a program needs, and why", Explain},
    {"verify", "check a certificate against the program that was compiled", Verify},
    {"run", "run a program on virtual CPU devices", Run},
    {"relayout", "plan how a tensor changes its layout", Relayout},
    {"ops", "say what ops there are, and what sharding them costs", Ops},
    {"fmt", "write a program in its canonical form", Format},
    {"rendezvous", "serve the place where the processes of a job find each other", ServeRendezvous},
};

std::string Help() {
  std::string out =
      "Compiles, explains, checks and runs sharded tensor programs in their text form.\n\n"
      "Usage: meshwork COMMAND …\n\n";
  for (const Command& command : kCommands) out += fmt::format("  {:<10} {}\n", command.name, command.summary);
  return out +
         "\nmeshwork COMMAND --help says more; meshwork --version says which one this is.\n\n"
         "Exit code 0: done. 1: the answer is no, or something failed on the way. 2: the input is wrong.\n";
}

absl::Status RunCommand(int argc, char** argv) {
  if (argc < 2) return InvalidArgument("meshwork: a command is missing. See --help.");
  const std::string name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("{}", Help());
    return absl::OkStatus();
  }
  if (name == "--version") {
    fmt::print("meshwork {}\n", MESHWORK_VERSION);
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (name == command.name)
      return Annotate(command.run({argc - 1, argv + 1}), fmt::format("meshwork {}: ", command.name));
    names.emplace_back(command.name);
  }
  const std::string hint = DidYouMean(name, names);
  return InvalidArgument("meshwork: there is no command \"{}\"{} See --help.", name,
                         hint.empty() ? "." : hint);
}

// An error if standard output could not be written completely.
absl::Status Flush() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format("meshwork: standard output: {}.", std::strerror(errno)));
}

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 0;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kInternal: return 1;
    default: return 2;
  }
}

}  // namespace

std::optional<absl::Status> Parse(FlagTable& flags, Arguments args) {
  if (absl::Status status = flags.Parse(args.argc, args.argv); !status.ok()) return status;
  if (!flags.help_asked()) return std::nullopt;
  fmt::print("{}", flags.Help());
  return absl::OkStatus();
}

}  // namespace meshwork::tools

int main(int argc, char** argv) {
  absl::Status status;
  try {
    status = meshwork::tools::RunCommand(argc, argv);
    if (status.ok()) status = meshwork::tools::Flush();
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("meshwork: there is not enough memory.");
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(
        fmt::format("meshwork: the system refused a resource: {}.", error.what()));
  }
  if (!status.ok()) fmt::print(stderr, "{}\n", meshwork::MessageOf(status));
  return meshwork::tools::ExitCode(status);
}
