#include "train/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/status.h"

namespace meshwork {
namespace {

// The kernel moves at most 2^31 bytes at once.
constexpr size_t kMaxTransfer = size_t{1} << 30;
constexpr size_t kMaxStream = size_t{256} << 20;  // of a pipe or a device, which may never end

std::string ErrorText(int error) { return std::generic_category().message(error); }

// A path that is empty would not be seen.
std::string Shown(const std::string& path) { return path.empty() ? "\"\"" : path; }

absl::Status CannotRead(const std::string& path, int error) {
  return absl::Status(absl::ErrnoToStatusCode(error),
                      fmt::format("{}: cannot be read: {}; check the path.", Shown(path), ErrorText(error)));
}

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      fmt::format("{}: cannot be written: {}; its directory must exist, be writable and have room. Nothing "
                  "was changed.",
                  Shown(path), ErrorText(error)));
}

// Closes a file descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

int OpenForReading(const std::string& path) {
  int fd;
  do fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  return fd;
}

// Each returns 0 or an errno.
int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), std::min(bytes.size(), kMaxTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

int WriteNewFile(const std::string& path, std::span<const std::string_view> pieces) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) return errno;
  for (std::string_view piece : pieces) {
    if (const int error = WriteAll(file.get(), piece); error != 0) return error;
  }
  // EINVAL: a file system that keeps nothing on a disk.
  if (fsync(file.get()) != 0 && errno != EINVAL) return errno;
  // Network file systems report a full disk only here.
  return close(file.Release()) == 0 ? 0 : errno;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  Descriptor file(OpenForReading(path));
  struct stat info;
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return CannotRead(path, errno);
  std::string contents;
  size_t filled = 0;
  // One byte more than the size, so that the end of a regular file is seen without growing.
  contents.resize(static_cast<size_t>(std::max<int64_t>(info.st_size, 4095)) + 1);
  while (true) {
    if (!S_ISREG(info.st_mode) && filled > kMaxStream)
      return InvalidArgument(
          "{}: gives more than 256 MiB and is no regular file; nothing that is read here whole "
          "should be that long.",
          Shown(path));
    if (filled == contents.size()) contents.resize(2 * filled);
    const ssize_t n =
        read(file.get(), contents.data() + filled, std::min(contents.size() - filled, kMaxTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotRead(path, errno);
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  contents.resize(filled);
  return contents;
}

namespace {

// A rename would put a file in the place of a device, of a pipe, or of what a link names.
absl::Status CheckReplaceable(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return absl::OkStatus();
  return InvalidArgument("{}: is {}; files are written whole and renamed, so give the path of a file.", path,
                         S_ISDIR(info.st_mode) ? "a directory" : "a device or a pipe");
}

}  // namespace

absl::Status CheckWritable(const std::string& path) {
  RETURN_IF_ERROR(CheckReplaceable(path));
  const std::string trial = fmt::format("{}.tmp-{}-try", path, getpid());
  const int error = WriteNewFile(trial, {});
  unlink(trial.c_str());
  return error == 0 ? absl::OkStatus() : CannotWrite(path, error);
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view contents) {
  return WriteFileAtomically(path, std::span<const std::string_view>(&contents, 1));
}

absl::Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> pieces) {
  RETURN_IF_ERROR(CheckReplaceable(path));
  static std::atomic<int64_t> count = 0;
  const std::string temporary = fmt::format("{}.tmp-{}-{}", path, getpid(), count++);
  int error = WriteNewFile(temporary, pieces);
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(temporary.c_str());
  return CannotWrite(path, error);
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  // Opening a pipe would wait for its writer, so look before.
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return CannotRead(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument("{}: is not a regular file; directories, pipes and devices are not read here.",
                           path);
  }
  Descriptor file(OpenForReading(path));
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return CannotRead(path, errno);
  return InputFile(path, file.Release(), info.st_size);
}

InputFile::InputFile(InputFile&& other) noexcept { *this = std::move(other); }

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status InputFile::ReadAt(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = pread(fd_, bytes.data(), std::min(bytes.size(), kMaxTransfer), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotRead(path_, errno);
    if (n == 0) {
      return InvalidArgument("{}: ends at byte {}, {} early; it was cut short while it was read.", path_,
                             offset, Count(static_cast<int64_t>(bytes.size()), "byte"));
    }
    offset += n;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace meshwork
