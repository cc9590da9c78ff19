#include "meshwork/base/fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// How many forks lie between the first process of the program and this one.
std::atomic<uint64_t> forks{0};

// A descriptor, and the file that it stood for: the number may stand for another one later.
struct OpenFile {
  int fd;
  dev_t device;
  ino_t inode;
};

struct Uninherited {
  std::mutex mutex;
  std::vector<OpenFile> files;
};
Uninherited& AllUninherited() {
  static auto* const all = new Uninherited;  // for threads that outlive main
  return *all;
}

bool IsStill(const OpenFile& file) {
  struct stat now;
  return fstat(file.fd, &now) == 0 && now.st_dev == file.device && now.st_ino == file.inode;
}

void BeforeFork() { AllUninherited().mutex.lock(); }
void InParent() { AllUninherited().mutex.unlock(); }
void InChild() {
  forks.fetch_add(1, std::memory_order_relaxed);
  for (const OpenFile& file : AllUninherited().files)
    if (IsStill(file)) close(file.fd);
  AllUninherited().files.clear();
  AllUninherited().mutex.unlock();
}

void Enter(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return;
  const std::lock_guard lock(AllUninherited().mutex);
  AllUninherited().files.push_back({fd, info.st_dev, info.st_ino});
}

// One entry.
void Leave(int fd) {
  const std::lock_guard lock(AllUninherited().mutex);
  std::vector<OpenFile>& files = AllUninherited().files;
  const auto found =
      std::find_if(files.begin(), files.end(), [fd](const OpenFile& file) { return file.fd == fd; });
  if (found != files.end()) files.erase(found);
}

void WatchForks() {
  static const int watched = pthread_atfork(BeforeFork, InParent, InChild);
  static_cast<void>(watched);
}

}  // namespace

ForkMark::ForkMark() {
  WatchForks();
  forks_ = forks.load(std::memory_order_relaxed);
}

bool ForkMark::is_here() const { return forks_ == forks.load(std::memory_order_relaxed); }

absl::Status ForkMark::Check(std::string_view what) const {
  if (is_here()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{}: it is the parent's, from before this process forked; a child has neither its threads nor its "
      "connections. Fork first, or let the child exec a program.",
      what));
}

UninheritedFd::UninheritedFd(int fd) : fd_(fd) {
  try {
    if (fd >= 0) Enter(fd);
  } catch (...) {
    close(fd);
    throw;
  }
}

UninheritedFd::UninheritedFd(UninheritedFd&& other) noexcept
    : made_(other.made_), fd_(std::exchange(other.fd_, -1)) {}

UninheritedFd& UninheritedFd::operator=(UninheritedFd&& other) noexcept {
  std::swap(made_, other.made_);
  std::swap(fd_, other.fd_);
  return *this;
}

UninheritedFd::~UninheritedFd() {
  if (get() < 0) return;
  Leave(fd_);
  close(fd_);
}

ClosedInChildren::ClosedInChildren(std::vector<int> fds) : fds_(std::move(fds)) {
  for (int fd : fds_) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    Enter(fd);
  }
}

ClosedInChildren::~ClosedInChildren() {
  if (!made_.is_here()) return;
  for (int fd : fds_) Leave(fd);
}

}  // namespace meshwork
