// Stands in front of the system calls of a program that is started with LD_PRELOAD (storage/child_process.h), and makes
// one of them fail, or ends the program there. The environment says which:
//
//   FAULT_DIR=/tmp/x      only calls on paths below this folder are counted
//   FAULT_CALLS=all       or: writes (calls that change something), reads
//   FAULT_AT=7            the number of the call that fails; 0: none
//   FAULT_KIND=EIO        or another of the names below: the call fails with it; short: it moves half of the bytes;
//                         kill: SIGKILL just before it. EINTR and short count only calls that they can happen to.
//   FAULT_STICKY=1        all later calls that change something fail, too, as on a disk that is gone
//   FAULT_PLAIN_RENAME=1  the file system does not know the flags of renameat2
//   FAULT_REPORT=/tmp/y   a file, to which a line is added for the call that was hit: "fsync /tmp/x/f"
//   FAULT_LOG=/tmp/z      a file, to which a line is added for each call that was counted, before it is made
//
// It uses no code of meshwork.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

// Properties of a call: whether it changes something, and which faults can happen to it.
enum : unsigned { kWrites = 1, kInterruptible = 2, kShortable = 4 };

std::string_view Setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

int ErrorOf(std::string_view kind) {
  constexpr std::pair<std::string_view, int> kErrors[] = {
      {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EROFS", EROFS}, {"EDQUOT", EDQUOT},
      {"EACCES", EACCES}, {"EMFILE", EMFILE}, {"EINTR", EINTR}, {"ESTALE", ESTALE}};
  for (const auto& [name, error] : kErrors)
    if (name == kind) return error;
  return 0;
}

struct Settings {
  const std::string dir{Setting("FAULT_DIR")}, report{Setting("FAULT_REPORT")}, log{Setting("FAULT_LOG")};
  const std::string_view calls = Setting("FAULT_CALLS"), kind = Setting("FAULT_KIND");
  const int64_t at = std::atoll(std::string(Setting("FAULT_AT")).c_str());
  const int error = ErrorOf(kind);
  const bool is_sticky = Setting("FAULT_STICKY") == "1", plain_rename = Setting("FAULT_PLAIN_RENAME") == "1";
};

const Settings& Get() {
  static const auto* const settings = new Settings;
  return *settings;
}

void AddLine(const std::string& file, const std::string& line) {
  if (file.empty()) return;
  const int fd = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  syscall(SYS_write, fd, line.data(), line.size());
  syscall(SYS_close, fd);
}

std::string PathOf(int fd) {
  char target[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const auto n = syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), target, sizeof(target));
  return n < 0 ? "" : std::string(target, static_cast<size_t>(n));
}

std::string PathAt(int dir, const char* path) {
  if (path[0] == '/' || dir == AT_FDCWD) return path;
  return path[0] == '\0' ? PathOf(dir) : PathOf(dir) + "/" + path;
}

bool IsBelow(const std::string& path) {
  const std::string& dir = Get().dir;
  return !dir.empty() && path.starts_with(dir) && (path.size() == dir.size() || path[dir.size()] == '/');
}

constexpr int kShort = -1;

// 0: make the call; kShort: with half of the bytes; else: fail with this errno. `also`: a second path.
int Fault(const char* call, unsigned what, const std::string& path, const std::string& also = "") {
  static std::atomic<int64_t> count = 0;
  static std::atomic<bool> is_gone = false;
  const Settings& s = Get();
  if (!IsBelow(path)) return 0;
  const bool writes = (what & kWrites) != 0;
  if (is_gone && writes) return s.error;
  if (s.calls == "writes" && !writes) return 0;
  if (s.calls == "reads" && writes) return 0;
  if (s.kind == "EINTR" && (what & kInterruptible) == 0) return 0;
  if (s.kind == "short" && (what & kShortable) == 0) return 0;
  const std::string line = std::string(call) + " " + path + (also.empty() ? "" : " " + also) + "\n";
  AddLine(s.log, line);
  if (++count != s.at) return 0;
  AddLine(s.report, line);
  is_gone = s.is_sticky;
  if (s.kind == "kill") syscall(SYS_kill, getpid(), SIGKILL);
  return s.kind == "short" ? kShort : s.error;
}

int Failed(int error) {
  errno = error;
  return -1;
}

template <typename F>
F* Next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

// The libc function that the function of this name hides.
#define NEXT(name) Next<decltype(::name)>(#name)

unsigned KindOfOpen(int flags) {
  return kInterruptible | ((flags & (O_CREAT | O_TRUNC)) != 0 ? unsigned{kWrites} : 0U);
}

const char* NameOfOpen(int flags) { return (flags & O_CREAT) != 0 ? "create" : "open"; }

}  // namespace

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name, cert-dcl50-cpp): they hide those of libc
extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (const int error = Fault(NameOfOpen(flags), KindOfOpen(flags), path); error > 0) return Failed(error);
  return NEXT(open)(path, flags, mode);
}

int openat(int dir, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (const int error = Fault(NameOfOpen(flags), KindOfOpen(flags), PathAt(dir, path)); error > 0)
    return Failed(error);
  return NEXT(openat)(dir, path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t n) {
  const int error =
      Fault("write", kWrites | kInterruptible | (n > 1 ? unsigned{kShortable} : 0U), PathOf(fd));
  if (error > 0) return Failed(error);
  return NEXT(write)(fd, bytes, error == kShort ? n / 2 : n);
}

ssize_t pwrite(int fd, const void* bytes, size_t n, off_t offset) {
  const int error =
      Fault("pwrite", kWrites | kInterruptible | (n > 1 ? unsigned{kShortable} : 0U), PathOf(fd));
  if (error > 0) return Failed(error);
  return NEXT(pwrite)(fd, bytes, error == kShort ? n / 2 : n, offset);
}

ssize_t read(int fd, void* bytes, size_t n) {
  const int error = Fault("read", kInterruptible | (n > 1 ? unsigned{kShortable} : 0U), PathOf(fd));
  if (error > 0) return Failed(error);
  return NEXT(read)(fd, bytes, error == kShort ? n / 2 : n);
}

ssize_t pread(int fd, void* bytes, size_t n, off_t offset) {
  const int error = Fault("pread", kInterruptible | (n > 1 ? unsigned{kShortable} : 0U), PathOf(fd));
  if (error > 0) return Failed(error);
  return NEXT(pread)(fd, bytes, error == kShort ? n / 2 : n, offset);
}

// The file is closed, even if the call reports an error.
int close(int fd) {
  const std::string path = PathOf(fd);
  const auto flags = syscall(SYS_fcntl, fd, F_GETFL);
  const bool writes = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
  const int error = Fault("close", kInterruptible | (writes ? unsigned{kWrites} : 0U), path);
  const int closed = NEXT(close)(fd);
  return error > 0 ? Failed(error) : closed;
}

int fsync(int fd) {
  if (const int error = Fault("fsync", kWrites | kInterruptible, PathOf(fd)); error > 0) return Failed(error);
  return NEXT(fsync)(fd);
}

int fdatasync(int fd) {
  if (const int error = Fault("fdatasync", kWrites | kInterruptible, PathOf(fd)); error > 0)
    return Failed(error);
  return NEXT(fdatasync)(fd);
}

int sync_file_range(int fd, off64_t offset, off64_t n, unsigned flags) {
  if (const int error = Fault("sync_file_range", kWrites, PathOf(fd)); error > 0) return Failed(error);
  return NEXT(sync_file_range)(fd, offset, n, flags);
}

int fallocate(int fd, int mode, off_t offset, off_t n) {
  if (const int error = Fault("fallocate", kWrites | kInterruptible, PathOf(fd)); error > 0)
    return Failed(error);
  return NEXT(fallocate)(fd, mode, offset, n);
}

int ftruncate(int fd, off_t size) noexcept {
  if (const int error = Fault("ftruncate", kWrites | kInterruptible, PathOf(fd)); error > 0)
    return Failed(error);
  return NEXT(ftruncate)(fd, size);
}

int fchmod(int fd, mode_t mode) noexcept {
  if (const int error = Fault("fchmod", kWrites, PathOf(fd)); error > 0) return Failed(error);
  return NEXT(fchmod)(fd, mode);
}

int flock(int fd, int operation) noexcept {
  if (const int error = Fault("flock", kWrites | kInterruptible, PathOf(fd)); error > 0) return Failed(error);
  return NEXT(flock)(fd, operation);
}

int rename(const char* from, const char* to) noexcept {
  if (const int error = Fault("rename", kWrites, from, to); error > 0) return Failed(error);
  return NEXT(rename)(from, to);
}

int renameat2(int from_dir, const char* from, int to_dir, const char* to, unsigned flags) noexcept {
  const char* const name = (flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename";
  if (const int error = Fault(name, kWrites, PathAt(from_dir, from), PathAt(to_dir, to)); error > 0)
    return Failed(error);
  if (Get().plain_rename && flags != 0 && IsBelow(PathAt(from_dir, from))) return Failed(EINVAL);
  return NEXT(renameat2)(from_dir, from, to_dir, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (const int error = Fault("mkdir", kWrites, path); error > 0) return Failed(error);
  return NEXT(mkdir)(path, mode);
}

int unlink(const char* path) noexcept {
  if (const int error = Fault("unlink", kWrites, path); error > 0) return Failed(error);
  return NEXT(unlink)(path);
}

int unlinkat(int dir, const char* path, int flags) noexcept {
  if (const int error = Fault("unlinkat", kWrites, PathAt(dir, path)); error > 0) return Failed(error);
  return NEXT(unlinkat)(dir, path, flags);
}

int remove(const char* path) noexcept {
  if (const int error = Fault("remove", kWrites, path); error > 0) return Failed(error);
  return NEXT(remove)(path);
}

int stat(const char* path, struct stat* info) noexcept {
  if (const int error = Fault("stat", 0, path); error > 0) return Failed(error);
  return NEXT(stat)(path, info);
}

int lstat(const char* path, struct stat* info) noexcept {
  if (const int error = Fault("lstat", 0, path); error > 0) return Failed(error);
  return NEXT(lstat)(path, info);
}

int fstat(int fd, struct stat* info) noexcept {
  if (const int error = Fault("fstat", 0, PathOf(fd)); error > 0) return Failed(error);
  return NEXT(fstat)(fd, info);
}

DIR* fdopendir(int fd) {
  if (const int error = Fault("fdopendir", 0, PathOf(fd)); error > 0) {
    errno = error;
    return nullptr;
  }
  return NEXT(fdopendir)(fd);
}

DIR* opendir(const char* path) {
  if (const int error = Fault("opendir", 0, path); error > 0) {
    errno = error;
    return nullptr;
  }
  return NEXT(opendir)(path);
}

struct dirent* readdir(DIR* dir) {
  if (const int error = Fault("readdir", 0, PathOf(dirfd(dir))); error > 0) {
    errno = error;
    return nullptr;
  }
  return NEXT(readdir)(dir);
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name, cert-dcl50-cpp)
