// meshwork supervise.
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "tools/cli/child_process.h"
#include "tools/cli/commands.h"

namespace meshwork::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kMisuse = 2;  // the exit code of programs whose input is wrong

struct Policy {
  int64_t restarts = 10;
  milliseconds backoff{1000}, max_backoff{300000}, reset_after{600000}, grace{10000};
  bool restart_on_misuse = false;
};

template <typename... Args>
void Say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "meshwork supervise: {}\n", fmt::format(format, std::forward<Args>(args)...));
  std::fflush(stderr);
}

// A run of the command, from its start to its end.
struct Try {
  int status = 0;  // of waitpid
  milliseconds lasted{};
  bool is_asked_to_end = false;  // by a signal to this process
};

class Supervisor {
 public:
  Supervisor(std::vector<std::string> command, const Policy& policy)
      : command_(std::move(command)), policy_(policy) {}

  // Returns the exit code of the last try. Error: the first one could not be started.
  absl::StatusOr<int> Run();

 private:
  const std::string& name() const { return command_[0]; }
  // Waits for the end of a child, passing signals on.
  Try Await(ChildProcess& child) const;
  absl::StatusOr<Try> RunOnce() const;
  // Whether to start the command again after a failed try. Prints the reason if not, and otherwise waits.
  bool StartsAgain(const Try& last);
  // False: a signal came.
  bool Sleep(milliseconds time) const;

  const std::vector<std::string> command_;
  const Policy policy_;
  const AwaitedSignals signals_;
  int64_t failures_ = 0;  // in a row, none of which ran long
};

Try Supervisor::Await(ChildProcess& child) const {
  Try run;
  const auto begin = steady_clock::now();
  while (true) {
    if (const std::optional<int> status = child.Poll(); status.has_value()) {
      run.status = *status;
      run.lasted = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
      return run;
    }
    const int signal = *signals_.Next();
    if (signal == SIGCHLD) continue;
    Say("{}: passes it on to {} and waits for its end.", SignalName(signal), name());
    run.is_asked_to_end = true;
    child.Signal(signal);
  }
}

absl::StatusOr<Try> Supervisor::RunOnce() const {
  MESHWORK_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(command_, signals_));
  const Try run = Await(child);
  if (const int left = child.EndDescendants(policy_.grace); left > 0)
    Say("{} has left {} that cannot be ended.", name(),
        left == 1 ? "a process" : fmt::format("{} processes", left));
  return run;
}

bool Supervisor::Sleep(milliseconds time) const {
  const auto end = steady_clock::now() + time;
  while (const std::optional<int> signal = signals_.Next(end)) {
    if (*signal == SIGCHLD) continue;
    Say("{}: does not start {} again.", SignalName(*signal), name());
    return false;
  }
  return true;
}

bool Supervisor::StartsAgain(const Try& last) {
  const std::string what = fmt::format("{} {} after {:.1f} s", name(), DescribeEnd(last.status),
                                       static_cast<double>(last.lasted.count()) / 1000);
  if (last.is_asked_to_end || ExitCodeOf(last.status) == 0) {
    Say("{}.", what);
    return false;
  }
  if (ExitCodeOf(last.status) == kMisuse && !policy_.restart_on_misuse) {
    Say("{}: its input is wrong, and would be wrong again; --restart-on-misuse starts it again even so.",
        what);
    return false;
  }
  if (last.lasted > policy_.reset_after) failures_ = 0;
  if (failures_ == policy_.restarts) {
    Say("{}; gives up after {}.", what, Count(policy_.restarts, "restart"));
    return false;
  }
  milliseconds wait = policy_.backoff;
  for (int64_t i = 0; i < failures_ && wait < policy_.max_backoff; ++i) wait *= 2;
  wait = std::min(wait, policy_.max_backoff);
  ++failures_;
  Say("{}; starts it again in {}, {} of {}.", what, DurationToString(wait), failures_, policy_.restarts);
  return Sleep(wait);
}

absl::StatusOr<int> Supervisor::Run() {
  MESHWORK_ASSIGN_OR_RETURN(Try last, RunOnce());
  bool has_failed = false;
  while (true) {
    if (!has_failed && !last.is_asked_to_end && last.status == 0) return 0;  // there is nothing to say
    has_failed = true;
    if (!StartsAgain(last)) return ExitCodeOf(last.status);
    absl::StatusOr<Try> next = RunOnce();
    if (next.ok()) {
      last = *next;
      continue;
    }
    // The program's folder may be missing only for a moment.
    Say("{}", MessageOf(next.status()));
    last = {.status = W_EXITCODE(127, 0)};
  }
}

}  // namespace

absl::Status Supervise(Arguments args) {
  Policy policy;
  std::vector<std::string> command;
  FlagTable flags(
      "meshwork supervise",
      "Runs a command, and starts it again when it fails: after 1 s, then after 2 s, 4 s and so on. Standard\n"
      "error says how it ended and when it starts again.\n\n"
      "A command that exits with 0 is done. One that exits with 2 has wrong input, by the convention of\n"
      "meshwork's programs, and would have it again; mpirun passes that code on. SIGTERM, SIGINT and SIGHUP\n"
      "are passed on to the command's process group; it is not started again when it ends then. What a\n"
      "command leaves running is ended. The exit code is that of the last run, or 128 + the signal that\n"
      "ended it.");
  flags.Rest("COMMAND ARG…", "what to run, as mpirun -n 4 train --resume; its standard input is /dev/null",
             &command);
  flags.Int("restarts", "how often it is started again, one failure after the other", &policy.restarts, 0);
  flags.Duration("backoff", "the time before the first start again; each next one takes twice as long",
                 &policy.backoff);
  flags.Duration("max-backoff", "the most time before a start", &policy.max_backoff);
  flags.Duration("reset-after", "a run that lasts longer has made progress: counting begins anew",
                 &policy.reset_after);
  flags.Duration("grace", "what is left running has so long to end after SIGTERM, before SIGKILL",
                 &policy.grace);
  flags.Switch("restart-on-misuse", "starts it again after exit code 2, too", &policy.restart_on_misuse);
  if (const auto done = Parse(flags, args)) return *done;
  if (policy.max_backoff < policy.backoff)
    return InvalidArgument("--max-backoff: {} is less than the {} of --backoff.",
                           DurationToString(policy.max_backoff), DurationToString(policy.backoff));
  absl::StatusOr<int> code = Supervisor(std::move(command), policy).Run();
  if (!code.ok()) return InvalidArgument("{}", MessageOf(code.status()));
  std::exit(*code);
}

}  // namespace meshwork::tools
