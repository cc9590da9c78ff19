#include "tools/cli/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>
#include <thread>

#include "meshwork/base/status.h"

namespace meshwork::tools {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLooks(20);
constexpr std::chrono::seconds kAfterKill(5);  // until a process that was killed is gone

// In the child, between fork and exec: only what a signal handler may call. Returns an errno, or not at all.
int BecomeProgram(char* const* argv, pid_t parent, const sigset_t& mask) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it is gone already
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0) return errno;
  if (null != STDIN_FILENO) close(null);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execvp(argv[0], argv);
  return errno;
}

// The processes whose parent this one is.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    pid_t id = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), id).ptr != name.data() + name.size())
      continue;
    std::ifstream file(it->path() / "stat");
    const std::string stat{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    // "12 (a name with any characters) S 1 …": the state and the parent.
    const size_t end_of_name = stat.rfind(") ");
    if (end_of_name == std::string::npos || stat.size() < end_of_name + 5) continue;
    pid_t parent = 0;
    std::from_chars(stat.data() + end_of_name + 4, stat.data() + stat.size(), parent);
    if (parent == getpid()) children.push_back(id);
  }
  return children;
}

}  // namespace

AwaitedSignals::AwaitedSignals() {
  signal(SIGCHLD, SIG_DFL);  // if it were ignored, the status of a child would be lost
  sigemptyset(&awaited_);
  sigaddset(&awaited_, SIGCHLD);
  for (const int ends : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction action {};
    if (sigaction(ends, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&awaited_, ends);
  }
  sigprocmask(SIG_BLOCK, &awaited_, &before_);
}

AwaitedSignals::~AwaitedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> AwaitedSignals::Next(std::optional<steady_clock::time_point> end) const {
  while (true) {
    timespec timeout{};
    if (end.has_value()) {
      const auto left = std::max<std::chrono::nanoseconds>(*end - steady_clock::now(), {});
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
      timeout = {static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
    }
    const int signal =
        end.has_value() ? sigtimedwait(&awaited_, nullptr, &timeout) : sigwaitinfo(&awaited_, nullptr);
    if (signal > 0) return signal;
    if (errno == EAGAIN) return std::nullopt;
  }
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& command,
                                                 const AwaitedSignals& signals) {
  const auto cannot = [&](int error) {
    return absl::Status(absl::ErrnoToStatusCode(error),
                        fmt::format("{}: cannot be started: {}; give a program and its arguments behind --.",
                                    command[0].empty() ? "\"\"" : command[0], std::strerror(error)));
  };
  std::vector<char*> argv;
  for (const std::string& text : command) argv.push_back(const_cast<char*>(text.c_str()));
  argv.push_back(nullptr);
  // Processes that the program leaves behind become children of this process, not of the system's first one.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int ends[2];  // closed by a successful exec
  if (pipe2(ends, O_CLOEXEC) != 0) return cannot(errno);
  const pid_t parent = getpid(), id = fork();
  if (id == 0) {
    const int error = BecomeProgram(argv.data(), parent, signals.mask_before());
    [[maybe_unused]] const ssize_t n = write(ends[1], &error, sizeof(error));
    _exit(127);
  }
  const int fork_error = errno;
  close(ends[1]);
  int error = 0;
  ssize_t n = 0;
  if (id > 0)
    while ((n = read(ends[0], &error, sizeof(error))) < 0 && errno == EINTR) {
    }
  close(ends[0]);
  if (id < 0) return cannot(fork_error);
  if (n != sizeof(error)) return ChildProcess(id);
  waitpid(id, nullptr, 0);
  return cannot(error);
}

std::optional<int> ChildProcess::Poll() {
  int status = 0;
  for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
    if (ended == id_) status_ = status;
  return status_;
}

int ChildProcess::EndDescendants(std::chrono::milliseconds grace) {
  const auto kill_at = steady_clock::now() + grace, give_up_at = kill_at + kAfterKill;
  std::set<pid_t> asked;
  while (true) {
    Poll();
    const std::vector<pid_t> left = Children();
    const auto now = steady_clock::now();
    if (left.empty() || now >= give_up_at) return static_cast<int>(left.size());
    // When a child ends, this process gets the child's children. So the list is read again each time.
    for (const pid_t id : left) {
      if (now >= kill_at) kill(id, SIGKILL);
      else if (asked.insert(id).second) kill(id, SIGTERM);
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

std::string SignalName(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string DescribeEnd(int status) {
  if (WIFSIGNALED(status)) return "was ended by " + SignalName(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "ended" : fmt::format("failed with exit code {}", WEXITSTATUS(status));
}

int ExitCodeOf(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace meshwork::tools
