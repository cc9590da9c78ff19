// Bytes as a file that has a path and lies on no disk.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "meshwork/base/status.h"

namespace meshwork {

// A file in memory with a path, as long as it lives.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents) : fd_(memfd_create("fuzzed", MFD_CLOEXEC)) {
    MESHWORK_CHECK(fd_ >= 0 &&
                   write(fd_, contents.data(), contents.size()) == static_cast<ssize_t>(contents.size()));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }
  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

}  // namespace meshwork
