#include "support/flushes.h"

#include <cerrno>
#include <filesystem>
#include <utility>

#include "fmt/format.h"

extern "C" int __real_fsync(int fd);  // NOLINT(bugprone-reserved-identifier): the linker's names

namespace meshwork {
namespace {

std::function<int(const std::string& path)> before_flush;

}  // namespace

WatchedFlushes::WatchedFlushes(std::function<int(const std::string& path)> before) {
  before_flush = std::move(before);
}

WatchedFlushes::~WatchedFlushes() { before_flush = nullptr; }

}  // namespace meshwork

extern "C" int __wrap_fsync(int fd) {  // NOLINT(bugprone-reserved-identifier): the linker's names
  const auto& before = meshwork::before_flush;
  const int error = before ? before(std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd))) : 0;
  if (error == 0) return __real_fsync(fd);
  errno = error;
  return -1;
}
