// meshwork: the library as a program for the shell, for programs in their text form. See --help.
//
// Exit code 0: success. 1: the answer is no (a certificate that does not hold, a text that is not formatted),
// or something failed on the way. 2: the input is wrong. Messages go to standard error, results to standard
// output.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/version.h"
#include "tools/cli/commands.h"

namespace meshwork::tools {
namespace {

constexpr Command kCommands[] = {
    {"compile", "compile a program and print what comes out, or what is known about it", Compile},
    {"explain", "say which collectives a program needs, and why", Explain},
    {"report", "write a page that shows a program, its collectives, its times and its memory", Report},
    {"verify", "check a certificate against the program that was compiled", Verify},
    {"run", "run a program on virtual devices", Run},
    {"save", "save a program for predictions", Save},
    {"predict", "predict by a saved program", Predict},
    {"plan", "find layouts for what a program does not pin, within a device's memory", Plan},
    {"simulate", "say how long a step takes on devices that need not be there", Simulate},
    {"relayout", "plan how a tensor changes its layout", Relayout},
    {"ops", "say what ops there are, and what sharding them costs", Ops},
    {"devices", "list the CPU and the GPUs of this machine", Devices},
    {"fmt", "write a program in its canonical form", Format},
    {"checkpoint", "list, check, compare, convert and cut anew what trainings have saved", Checkpoints, true},
    {"import", "make programs and weights of JAX and of GGUF files usable here", Import, true},
    {"supervise", "run a job, and start it again when it fails", Supervise},
    {"rendezvous", "serve the place where the processes of a job find each other", ServeRendezvous},
};

constexpr CommandTable kTable = {
    .program = "meshwork",
    .about =
        "Compiles, explains, checks and runs sharded tensor programs in their text form, and looks after what\n"
        "trainings save.",
    .commands = kCommands,
    .end =
        "meshwork COMMAND --help says more; meshwork --version says which one this is.\n\n"
        "Exit code 0: done. 1: the answer is no, or something failed on the way. 2: the input is wrong.\n"};

absl::Status RunCommand(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--version") {
    fmt::print("meshwork {}\n", MESHWORK_VERSION);
    return absl::OkStatus();
  }
  return RunOneOf(kTable, {argc, argv});
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
    case absl::StatusCode::kUnavailable:  // another process is lost
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInternal: return 1;
    default: return 2;
  }
}

}  // namespace
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
  if (!status.ok()) fmt::print(stderr, "{}\n", meshwork::PrintableLines(meshwork::MessageOf(status)));
  return meshwork::tools::ExitCode(status);
}
