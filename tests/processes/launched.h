// Runs a program as several processes: by mpirun; by TF_CONFIG.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "support/temp_dir.h"
#include "tools/cli/process.h"

namespace meshwork {

struct Launcher {
  std::string name;
  // The command before the program and its arguments.
  std::vector<std::string> (*command)(int processes);
  std::string rank;  // the process's number, for a shell
  friend std::ostream& operator<<(std::ostream& out, const Launcher& launcher) {
    return out << launcher.name;
  }
};

#ifdef LAUNCH
inline Launcher LauncherByTfConfig() {
  return {"TfConfig",
          [](int processes) -> std::vector<std::string> {
            return {LAUNCH, std::to_string(processes)};
          },
          // TF_CONFIG ends by the task's index.
          "$(echo \"$TF_CONFIG\" | tr -dc 0-9 | tail -c 1)"};
}
#endif

inline std::vector<Launcher> Launchers() {
  std::vector<Launcher> launchers;
#ifdef MPIEXEC
  launchers.push_back({"Mpi",
                       [](int processes) -> std::vector<std::string> {
                         return {MPIEXEC, "-n", std::to_string(processes), "--oversubscribe"};
                       },
                       "$OMPI_COMM_WORLD_RANK"});
#endif
#ifdef LAUNCH
  launchers.push_back(LauncherByTfConfig());
#endif
  return launchers;
}

// Runs a program by the given launcher command and its flags. What processes print has no numbers of theirs in front.
// `scratch`: as of RunProcess.
inline Finished RunLaunched(std::vector<std::string> command, const std::string& program,
                            const std::vector<std::string>& args, const std::string& scratch) {
  command.push_back(program);
  command.insert(command.end(), args.begin(), args.end());
  const std::string first = command[0];
  command.erase(command.begin());
  Finished finished =
      RunProcess(first, command, scratch, {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  static const std::regex number("(^|\n)\\[\\d+\\] ");
  finished.out = std::regex_replace(finished.out, number, "$1");
  finished.err = std::regex_replace(finished.err, number, "$1");
  return finished;
}

// Tests with a folder of their own, whose name is in the arguments of all that they launch.
class LaunchedTest : public TempDirTest, public testing::WithParamInterface<Launcher> {
 protected:
  // One process.
  Finished Alone(const std::string& program, std::vector<std::string> args) const {
    return RunProcess(program, args, Path("alone"));
  }

  Finished Launch(int processes, const std::string& program, const std::vector<std::string>& args) const {
    return LaunchBy(GetParam().command(processes), program, args);
  }
  // Runs it by the given launcher command and its flags.
  Finished LaunchBy(std::vector<std::string> command, const std::string& program,
                    const std::vector<std::string>& args) const {
    return RunLaunched(std::move(command), program, args, Path("launched"));
  }

  // The same where each process gets other arguments: `args` is a shell's, with the process's number as $RANK.
  Finished LaunchEach(int processes, const std::string& program, const std::string& args) const {
    return Launch(processes, "/bin/sh",
                  {"-c", fmt::format("RANK={}; exec {} {}", GetParam().rank, program, args)});
  }

  // Processes that still run with this test's folder among their arguments.
  std::vector<std::string> LeftBehind() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string command = Contents(entry.path() / "cmdline");
      if (command.find(dir()) != std::string::npos) found.push_back(command);
    }
    return found;
  }
};

}  // namespace meshwork
