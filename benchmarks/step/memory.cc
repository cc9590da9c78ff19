#include "benchmarks/step/memory.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "benchmarks/step/step.h"
#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

// The standard output of this program when it is run with these arguments.
absl::StatusOr<std::string> RunMyself(const std::vector<std::string>& args) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> argv = {const_cast<char*>(TheStepModel().program.data())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string out;
  if (error == 0) {
    char portion[4096];
    for (ssize_t n = 0; (n = read(ends[0], portion, sizeof(portion))) > 0;)
      out.append(portion, static_cast<size_t>(n));
  }
  close(ends[0]);
  if (error != 0) return absl::ErrnoToStatus(error, "posix_spawn");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return absl::InternalError("the process failed, see above.");
  return out;
}

}  // namespace

absl::StatusOr<double> PeakMegabytesAlone(const std::string& variant, int64_t batch) {
  const absl::StatusOr<std::string> out = RunMyself(
      {"--only", variant, "--batch", fmt::format("{}", batch), "--repeats=1", "--steps=1", "--json=-"});
  if (!out.ok()) return Annotate(out.status(), fmt::format("{} alone: ", variant));
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(*out, variant));
  return json.at("batches").at(0).at("variants").at(0).at("peak_mb").get<double>();
}

}  // namespace meshwork
