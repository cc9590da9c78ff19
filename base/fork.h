// Forks: an object that a process made before it forked is of no use in the child, where only the forking thread
// exists. A lock may be held there for ever, a thread cannot be joined, and a connection is the parent's.
//
//   class Connection {
//    public:
//     absl::Status Send() {
//       MESHWORK_RETURN_IF_ERROR(made_.Check("Connection"));   // in a child: an error, where it would wait for ever
//       …
//     }
//
//    private:
//     const ForkMark made_;
//     UnlessForked<Threads> threads_;                          // which a child leaves alone
//   };
//
// Children of fork() are recognized. Children of vfork, clone and _Fork are not; they may do little more than exec.
//
// Thread safety: a mark may be read by several threads; else one thread at a time per object.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace meshwork {

// Remembers the process that made it. Copies remember the same process.
class ForkMark {
 public:
  ForkMark();

  // True in the process that made it, false in processes forked from that one. Costs one read of memory.
  bool is_here() const;
  // Error unless is_here(): FailedPrecondition. `what`: what was made, "Session".
  absl::Status Check(std::string_view what) const;

 private:
  uint64_t forks_;
};

// Deletes an object that this process made, and leaves an object that a parent made to the system: a destructor that
// waits for threads, or says goodbye to other processes, must not run twice.
struct DeleteUnlessForked {
  template <typename T>
  void operator()(T* object) const {
    if (made.is_here()) delete object;
  }
  ForkMark made = {};
};
template <typename T>
using UnlessForked = std::unique_ptr<T, DeleteUnlessForked>;

// A file descriptor of this process alone: a child of a fork closes its copy at once. So a lock of the file (flock)
// ends with this process, though a child lives on. Open it with O_CLOEXEC for programs that are started otherwise.
class UninheritedFd {
 public:
  UninheritedFd() = default;
  // Closes it in the end. Throws std::bad_alloc if there is not enough memory, and has then closed it.
  explicit UninheritedFd(int fd);
  UninheritedFd(UninheritedFd&& other) noexcept;
  UninheritedFd& operator=(UninheritedFd&& other) noexcept;
  ~UninheritedFd();

  // -1: there is none, or this process is a child.
  int get() const { return made_.is_here() ? fd_ : -1; }

 private:
  ForkMark made_;
  int fd_ = -1;
};

// While it lives, children of a fork close their copies of these files at once, as with UninheritedFd; so do programs
// that they or this process start by exec. The files belong to somebody else, who may close them meanwhile. So the
// other end of a connection sees that this process has ended, though a child lives on.
class ClosedInChildren {
 public:
  explicit ClosedInChildren(std::vector<int> fds);
  ClosedInChildren(const ClosedInChildren&) = delete;
  ClosedInChildren& operator=(const ClosedInChildren&) = delete;
  ~ClosedInChildren();

 private:
  const ForkMark made_;
  const std::vector<int> fds_;
};

}  // namespace meshwork
