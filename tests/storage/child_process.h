// A program that a test starts, listens to and kills.
//
//   ChildProcess child({CHECKPOINT_CHILD, "read", dir}, {{"FAULT_AT", "3"}});
//   child.Wait();                                   // 0: it ended well; -9: SIGKILL ended it
//   child.Lines();                                  // the lines that it has printed
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork {

class ChildProcess {
 public:
  using Environment = std::map<std::string, std::string>;

  ChildProcess(std::vector<std::string> arguments, const Environment& environment = {}) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0) << std::strerror(errno);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<std::string> settings;
    for (char** own = environ; *own != nullptr; ++own) settings.emplace_back(*own);
    for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
    const int error = posix_spawn(&id_, arguments[0].c_str(), &actions, nullptr, Pointers(arguments).data(),
                                  Pointers(settings).data());
    EXPECT_EQ(error, 0) << arguments[0] << ": " << std::strerror(error);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    out_ = ends[0];
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    Kill();
    close(out_);
  }

  // Waits until it has printed `text`, or ends.
  void Await(std::string_view text) {
    while (said_.find(text) == std::string::npos && ReadSome()) continue;
  }
  // Kills it, unless it has ended, and waits.
  void Kill() {
    if (has_ended_) return;
    kill(id_, SIGKILL);
    Wait();
  }
  // Waits for its end. Returns its exit code, or minus the signal that ended it.
  int Wait() {
    while (ReadSome()) continue;
    if (!has_ended_) {
      int status = 0;
      while (waitpid(id_, &status, 0) < 0 && errno == EINTR) continue;
      end_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
      has_ended_ = true;
    }
    return end_;
  }
  // REQUIRES: Wait or Kill was called.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    size_t begin = 0;
    for (size_t end; (end = said_.find('\n', begin)) != std::string::npos; begin = end + 1)
      lines.push_back(said_.substr(begin, end - begin));
    return lines;
  }

 private:
  static std::vector<char*> Pointers(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
  }
  bool ReadSome() {
    char text[4096];
    const ssize_t n = read(out_, text, sizeof(text));
    if (n > 0) said_.append(text, static_cast<size_t>(n));
    return n > 0 || (n < 0 && errno == EINTR);
  }

  pid_t id_ = -1;
  int out_ = -1;
  std::string said_;
  bool has_ended_ = false;
  int end_ = 0;
};

}  // namespace meshwork
