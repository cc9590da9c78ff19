// Children of forks, for tests. A child that hangs is ended by an alarm.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"

namespace meshwork {

// Sanitizers, whose builds define this, do not fork with threads.
#if defined(MESHWORK_ONE_CPU_LEVEL)
inline constexpr bool kMayFork = false;
#else
inline constexpr bool kMayFork = true;
#endif

// What `say` returns in the child of a fork, which then leaves by exit: so functions of atexit run there. If the child
// ends otherwise, that.
inline std::string SaidByChild(const std::function<std::string()>& say) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    close(ends[0]);
    const std::string text = say();
    const bool is_written = write(ends[1], text.data(), text.size()) == std::ssize(text);
    close(ends[1]);
    std::exit(is_written ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char bytes[4096];
  for (ssize_t n; (n = read(ends[0], bytes, sizeof(bytes))) > 0;) said.append(bytes, static_cast<size_t>(n));
  close(ends[0]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return said;
  if (WIFSIGNALED(status))
    return fmt::format("the child was ended by signal {}, after \"{}\"", WTERMSIG(status), said);
  return fmt::format("the child ended with {}, after \"{}\"", WEXITSTATUS(status), said);
}

// A status that a child makes.
inline absl::Status StatusOfChild(const std::function<absl::Status()>& make) {
  const std::string said = SaidByChild([&] {
    const absl::Status status = make();
    return fmt::format("{} {}", static_cast<int>(status.code()), MessageOf(status));
  });
  const size_t space = said.find(' ');
  const int code = std::atoi(said.c_str());
  if (space == std::string::npos || (code == 0 && said != "0 ")) return absl::InternalError(said);
  return absl::Status(static_cast<absl::StatusCode>(code), said.substr(space + 1));
}

}  // namespace meshwork
