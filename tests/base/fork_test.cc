#include "meshwork/base/fork.h"

#include <fcntl.h>
#include <sys/file.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/forks.h"

namespace meshwork::fork_test {
namespace {

TEST(ForkTest, AMarkIsOfTheProcessThatMadeIt) {
  const ForkMark mark;
  const ForkMark copy = mark;
  EXPECT_TRUE(mark.is_here());
  EXPECT_TRUE(mark.Check("It").ok());
  EXPECT_EQ(SaidByChild([&] {
              const ForkMark own;
              const std::string grandchild = SaidByChild(
                  [&] { return std::string(own.is_here() || mark.is_here() ? "here" : "not here"); });
              return fmt::format("{} {} {}, {}", mark.is_here(), copy.is_here(), own.is_here(), grandchild);
            }),
            "false false true, not here");
  EXPECT_TRUE(mark.is_here());
  const absl::Status status = StatusOfChild([&] { return mark.Check("Session"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), testing::StartsWith("Session: it is the parent's, "));
}

TEST(ForkTest, WhatAParentMadeIsNotDeleted) {
  static int deleted = 0;
  struct Thing {
    ~Thing() { ++deleted; }
  };
  static Thing *const first = new Thing, *const second = new Thing;  // static: no leaks in the child
  UnlessForked<Thing> thing(first);
  std::shared_ptr<Thing> shared(second, DeleteUnlessForked());
  EXPECT_EQ(SaidByChild([&] {
              thing.reset();
              shared.reset();
              UnlessForked<Thing>(new Thing).reset();  // the child's own object is deleted
              return std::to_string(deleted);
            }),
            "1");
  EXPECT_EQ(deleted, 0);
  UnlessForked<Thing> moved = std::move(thing);
  moved.reset();
  shared.reset();
  EXPECT_EQ(deleted, 2);
}

// Whether some process has locked the file.
bool IsLocked(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const bool is_locked = flock(fd, LOCK_EX | LOCK_NB) != 0;
  close(fd);
  return is_locked;
}

TEST(ForkTest, AnUninheritedFileIsClosedInAChild) {
  const std::string path = fmt::format("{}uninherited-{}", testing::TempDir(), getpid());
  UninheritedFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const int fd = file.get();
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  int ends[2], born[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(pipe(born), 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    close(ends[1]);
    if (write(born[1], "!", 1) != 1) _exit(2);
    const bool is_closed = file.get() == -1 && fcntl(fd, F_GETFD) == -1;
    // The descriptor number may be reused, and then does not belong to the lock.
    const int again = open("/dev/null", O_RDONLY | O_CLOEXEC);
    file = UninheritedFd();
    const bool is_open = fcntl(again, F_GETFD) != -1;
    char end;
    const bool has_ended =
        read(ends[0], &end, 1) == 0;  // the parent lets go of the lock while this process lives
    _exit(is_closed && is_open && has_ended ? 0 : 1);
  }
  close(ends[0]);
  char byte;
  ASSERT_EQ(read(born[0], &byte, 1), 1);
  EXPECT_TRUE(IsLocked(path));
  UninheritedFd moved = std::move(file);
  EXPECT_EQ(file.get(), -1);
  EXPECT_EQ(moved.get(), fd);
  moved = UninheritedFd();
  EXPECT_FALSE(IsLocked(path));
  close(ends[1]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  close(born[0]);
  close(born[1]);
  unlink(path.c_str());
}

// Files that another object owns, and may have closed before the fork.
TEST(ForkTest, FilesOfOthersAreClosedInAChild) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto closed = std::make_unique<ClosedInChildren>(std::vector<int>{ends[0], ends[1]});
  EXPECT_EQ(fcntl(ends[0], F_GETFD), FD_CLOEXEC);
  const auto open_in_child = [&] {
    return SaidByChild(
        [&] { return fmt::format("{} {}", fcntl(ends[0], F_GETFD), fcntl(ends[1], F_GETFD)); });
  };
  EXPECT_EQ(open_in_child(), "-1 -1");
  ASSERT_EQ(close(ends[1]), 0);
  ASSERT_EQ(open("/dev/null", O_RDONLY), ends[1]);  // another file with that number, which a child may keep
  EXPECT_EQ(open_in_child(), "-1 0");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace meshwork::fork_test
