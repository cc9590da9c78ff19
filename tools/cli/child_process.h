// A program that is started, and everything that it starts in turn.
//
// Uses Linux: process groups, subreapers, /proc. One ChildProcess at a time, in a program of one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwork::tools {

// While it lives, SIGCHLD, and SIGTERM, SIGINT and SIGHUP unless this process ignores them, are held back until Next
// takes them.
class AwaitedSignals {
 public:
  AwaitedSignals();
  AwaitedSignals(const AwaitedSignals&) = delete;
  AwaitedSignals& operator=(const AwaitedSignals&) = delete;
  ~AwaitedSignals();

  // The next signal, or nothing if none comes until `end`. Without `end`, waits for one.
  std::optional<int> Next(std::optional<std::chrono::steady_clock::time_point> end = std::nullopt) const;
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t awaited_, before_;
};

class ChildProcess {
 public:
  // Starts command[0], found as a shell finds it, with the other texts as arguments: in a process group of its own,
  // with standard input from /dev/null. It gets SIGTERM if this process is killed. Errors: the program cannot be
  // started, or the system has no room for a process.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& command,
                                            const AwaitedSignals& signals);

  pid_t id() const { return id_; }
  // Passes a signal on to its process group.
  void Signal(int signal) const { kill(-id_, signal); }
  // The status with which it ended, as of waitpid; nothing while it runs. Also reaps other children that have ended.
  std::optional<int> Poll();
  // Ends the processes that it has left running, in its process group or elsewhere: by SIGTERM and, after `grace`, by
  // SIGKILL. Returns the number of processes that are still there then, such as those that wait for a disk. REQUIRES:
  // it has ended.
  int EndDescendants(std::chrono::milliseconds grace);

 private:
  explicit ChildProcess(pid_t id) : id_(id) {}
  pid_t id_;
  std::optional<int> status_;
};

// "failed with exit code 3", "was ended by SIGKILL". `status`: as of waitpid.
std::string DescribeEnd(int status);
std::string SignalName(int signal);  // "SIGTERM"
// The exit code as a shell gives it: 128 + the signal if a signal ended the program.
int ExitCodeOf(int status);

}  // namespace meshwork::tools
