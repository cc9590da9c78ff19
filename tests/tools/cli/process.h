// Running a program as a shell does.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "support/contents.h"

namespace meshwork {

struct Finished {
  int code = -1;  // exit code; 128 + the signal where one ended it
  std::string out, err;
};

// Runs `program` with the environment of this process, less MNIST_DIR, plus `settings` ("NAME=value").
// `scratch` is a path prefix for what it prints; nothing is left there. `meanwhile`, if given, is called once it runs.
inline Finished RunProcess(const std::string& program, const std::vector<std::string>& args,
                           const std::string& scratch, const std::vector<std::string>& settings = {},
                           const std::function<void(pid_t)>& meanwhile = {}) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::strncmp(*variable, "MNIST_DIR=", 10) != 0) environment.push_back(*variable);
  for (const std::string& setting : settings) environment.push_back(const_cast<char*>(setting.c_str()));
  environment.push_back(nullptr);

  const std::string out = scratch + ".out", err = scratch + ".err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(error, 0) << program << ": " << std::strerror(error);
  if (error != 0) return {};
  if (meanwhile != nullptr) meanwhile(child);

  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Finished finished{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Contents(out),
                    Contents(err)};
  unlink(out.c_str());
  unlink(err.c_str());
  return finished;
}

}  // namespace meshwork
