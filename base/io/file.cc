#include "meshwork/base/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/io/sha256.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// The kernel moves at most 2^31 bytes at once.
constexpr size_t kMaxTransfer = size_t{1} << 30;
// Linux takes longer over writes of several MiB. The disk is started each time that kBroughtAtOnce bytes are written.
constexpr size_t kWrittenAtOnce = size_t{1} << 20;
constexpr int64_t kBroughtAtOnce = int64_t{8} << 20;
constexpr size_t kMaxStream = size_t{256} << 20;  // of a pipe or a device, which may never end
constexpr size_t kHashedAtOnce = size_t{1} << 20;

std::string ErrorText(int error) { return std::generic_category().message(error); }

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      fmt::format("{}: cannot be written: {}; its directory must exist, be writable and have room. Nothing "
                  "was changed.",
                  Printable(path), ErrorText(error)));
}

absl::Status CannotFlush(const std::string& path, int error) {
  return absl::Status(absl::ErrnoToStatusCode(error),
                      fmt::format("{}: was replaced, but its directory cannot be flushed to the disk: {}; "
                                  "until it is, a power failure may bring the old file back.",
                                  path, ErrorText(error)));
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

int OpenForReading(const std::string& path, int flags = 0) {
  int fd;
  do fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  while (fd < 0 && errno == EINTR);
  return fd;
}

// Each returns 0 or an errno.
int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), std::min(bytes.size(), kWrittenAtOnce));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;  // a write of 0 bytes would be repeated for ever
    bytes.remove_prefix(static_cast<size_t>(n));
    // The disk starts while the next bytes are copied, so that less is left for the flush, which reports errors.
    const int64_t end = lseek(fd, 0, SEEK_CUR);
    if (end / kBroughtAtOnce != (end - n) / kBroughtAtOnce) sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
  }
  return 0;
}

// Updates `hash` with the pieces, unless it is told to stop.
void HashPieces(const std::stop_token& stop, std::span<const std::string_view> pieces, Sha256& hash) {
  for (std::string_view piece : pieces) {
    while (!piece.empty() && !stop.stop_requested()) {
      const std::string_view part = piece.substr(0, kHashedAtOnce);
      hash.Update(std::as_bytes(std::span(part)));
      piece.remove_prefix(part.size());
    }
  }
}

int Flush(int fd) {
  while (fsync(fd) != 0)
    if (errno != EINTR)
      return errno == EINVAL ? 0 : errno;  // EINVAL: a file system that keeps nothing on a disk
  return 0;
}

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Makes the file at `fd` look as the one that it replaces.
int TakeOver(int fd, const struct stat& old) {
  mode_t mode = old.st_mode & 07777;
  struct stat info;
  if (fstat(fd, &info) != 0) return errno;
  if (info.st_gid != old.st_gid && fchown(fd, static_cast<uid_t>(-1), old.st_gid) != 0) {
    const mode_t others = mode & 07;
    mode = (mode & ~static_cast<mode_t>(02070)) | (mode & (others << 3));
  }
  // Only root gives files away. A file that runs as its owner must not run as another.
  if (info.st_uid != old.st_uid && fchown(fd, old.st_uid, static_cast<gid_t>(-1)) != 0)
    mode &= ~static_cast<mode_t>(04000);
  return fchmod(fd, mode) == 0 ? 0 : errno;
}

// Writes a file's contents and flushes them. Returns 0 or an errno.
using Fill = std::function<int(int fd)>;

// Writes the pieces, and updates `hash` with them, if it is not null.
int WriteHashed(int fd, std::span<const std::string_view> pieces, Sha256* hash, bool flush) {
  // Hashing is about as slow as a fast disk, so it has a thread of its own. An error stops it.
  std::jthread hasher;
  try {
    if (hash != nullptr) hasher = std::jthread(HashPieces, pieces, std::ref(*hash));
  } catch (const std::system_error& error) {
    return error.code().value();  // no more threads
  }
  for (std::string_view piece : pieces)
    if (const int error = WriteAll(fd, piece); error != 0) return error;
  if (const int error = flush ? Flush(fd) : 0; error != 0) return error;
  if (hasher.joinable()) hasher.join();
  return 0;
}

// Writes a file beside `path` and says which; none where it could not be made. `old`: the file that it is to
// replace, null if there is none.
int WriteNewFile(const std::string& path, const Fill& fill, const struct stat* old,
                 std::optional<std::string>& written) {
  static std::atomic<int64_t> count = 0;
  constexpr int kTries = 100;
  int fd = -1;
  for (int i = 0; i < kTries && fd < 0 && (i == 0 || errno == EEXIST || errno == EINTR); ++i) {
    written = fmt::format("{}.tmp-{}-{}", path, getpid(), count++);
    // Opens neither a file that exists nor one that a link leads to. Nobody else may read the file before it has the
    // permissions of the old one.
    fd = open(written->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
              old == nullptr ? 0666 : 0600);
  }
  if (fd < 0) {
    written.reset();
    return errno;
  }
  Descriptor file(fd);
  if (old != nullptr)
    if (const int error = TakeOver(file.get(), *old); error != 0) return error;
  if (const int error = fill(file.get()); error != 0) return error;
  // Network file systems report a full disk only here. After EINTR the file is closed, and it has been flushed.
  return close(file.Release()) == 0 || errno == EINTR ? 0 : errno;
}

}  // namespace

absl::Status CannotRead(const std::string& path, int error) {
  return absl::Status(absl::ErrnoToStatusCode(error), fmt::format("{}: cannot be read: {}; check the path.",
                                                                  Printable(path), ErrorText(error)));
}

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
          Printable(path));
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

// The file that a write to `path` replaces or makes.
struct Target {
  std::string path;  // no link
  bool exists = false;
  struct stat info = {};
};

// Follows links, also to where there is nothing yet. Errors: a rename would put a file in the place of a
// device, of a pipe or of a directory.
absl::StatusOr<Target> FindTarget(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  Target target{.path = path};
  struct stat link;
  for (int links = 0; lstat(target.path.c_str(), &link) == 0 && S_ISLNK(link.st_mode); ++links) {
    std::error_code error;
    const std::filesystem::path to = std::filesystem::read_symlink(target.path, error);
    if (error || links == kMostLinks) return CannotWrite(path, error ? error.value() : ELOOP);
    target.path = (std::filesystem::path(target.path).parent_path() / to).string();
  }
  target.exists = stat(target.path.c_str(), &target.info) == 0;
  if (!target.exists || S_ISREG(target.info.st_mode)) return target;
  return InvalidArgument("{}: is {}; files are written whole and renamed, so give the path of a file.", path,
                         S_ISDIR(target.info.st_mode) ? "a directory" : "a device or a pipe");
}

absl::Status ReplaceFile(const std::string& path, const Fill& fill) {
  MESHWORK_ASSIGN_OR_RETURN(const Target target, FindTarget(path));
  // Opened before anything is written, so that a directory that cannot be flushed changes nothing. One that
  // may be written but not read stays closed.
  const Descriptor directory(OpenForReading(ParentOf(target.path), O_DIRECTORY));
  if (directory.get() < 0 && errno != EACCES) return CannotWrite(path, errno);
  std::optional<std::string> temporary;
  int error = WriteNewFile(target.path, fill, target.exists ? &target.info : nullptr, temporary);
  if (error == 0 && std::rename(temporary->c_str(), target.path.c_str()) != 0) error = errno;
  if (error != 0) {
    if (temporary.has_value()) unlink(temporary->c_str());
    return CannotWrite(path, error);
  }
  if (directory.get() >= 0) error = Flush(directory.get());
  return error == 0 ? absl::OkStatus() : CannotFlush(path, error);
}

}  // namespace

absl::Status CheckWritable(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const Target target, FindTarget(path));
  std::optional<std::string> trial;
  const int error = WriteNewFile(target.path, Flush, /*old=*/nullptr, trial);
  if (trial.has_value()) unlink(trial->c_str());
  return error == 0 ? absl::OkStatus() : CannotWrite(path, error);
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view contents) {
  return WriteFileAtomically(path, std::span<const std::string_view>(&contents, 1));
}

absl::Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> pieces,
                                 Sha256* hash) {
  return ReplaceFile(path, [&](int fd) { return WriteHashed(fd, pieces, hash, /*flush=*/true); });
}

absl::Status WritePiecesAtomically(const std::string& path, const NextPiece& next, Sha256* hash) {
  absl::Status made;
  const absl::Status written = ReplaceFile(path, [&](int fd) {
    while (true) {
      const absl::StatusOr<std::string_view> piece = next();
      if (!piece.ok()) {
        made = piece.status();
        return ECANCELED;
      }
      if (piece->empty()) return Flush(fd);
      if (const int error = WriteHashed(fd, {&*piece, 1}, hash, /*flush=*/false); error != 0) return error;
    }
  });
  return made.ok() ? written : made;
}

absl::Status FlushFolder(const std::string& path) {
  const Descriptor folder(OpenForReading(path, O_DIRECTORY));
  int error = folder.get() < 0 ? errno : Flush(folder.get());
  if (error == EACCES) error = 0;
  return error == 0
             ? absl::OkStatus()
             : absl::Status(
                   absl::ErrnoToStatusCode(error),
                   fmt::format("{}: the folder cannot be flushed to the disk: {}; see whether the disk "
                               "fails.",
                               Printable(path), ErrorText(error)));
}

absl::Status MakeFolders(const std::string& path) {
  const auto cannot = [&](int error) {
    return absl::Status(absl::ErrnoToStatusCode(error),
                        fmt::format("{}: the folder cannot be made: {}; give a folder that can be written.",
                                    Printable(path), ErrorText(error)));
  };
  std::vector<std::string> missing;  // the deepest first
  struct stat info;
  for (std::string at = path; stat(at.c_str(), &info) != 0; at = ParentOf(at)) {
    if (errno != ENOENT || at.empty()) return cannot(errno);
    missing.push_back(at);
  }
  if (!S_ISDIR(info.st_mode)) return cannot(ENOTDIR);
  for (; !missing.empty(); missing.pop_back()) {
    if (mkdir(missing.back().c_str(), 0777) != 0 && errno != EEXIST) return cannot(errno);
    MESHWORK_RETURN_IF_ERROR(FlushFolder(ParentOf(missing.back())));
  }
  return absl::OkStatus();
}

namespace {

// renameat2 with flags that not every file system knows, and with which it changes nothing then.
bool IsUnknown(int error) { return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP; }

absl::Status CannotRename(const std::string& from, const std::string& to, int error) {
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      fmt::format("{}: cannot be renamed to {}: {}; nothing was changed.", from, to, ErrorText(error)));
}

// Calls `rename`, which returns 0 or an errno, and flushes the directory of `to`.
absl::Status RenameAndFlush(const std::string& from, const std::string& to,
                            const std::function<int()>& rename) {
  const Descriptor directory(OpenForReading(ParentOf(to), O_DIRECTORY));
  if (directory.get() < 0) return CannotRename(from, to, errno);
  if (const int error = rename(); error != 0) return CannotRename(from, to, error);
  const int error = Flush(directory.get());
  return error == 0 ? absl::OkStatus() : CannotFlush(to, error);
}

}  // namespace

absl::Status RenameFolder(const std::string& from, const std::string& to) {
  return RenameAndFlush(from, to, [&] {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (!IsUnknown(errno)) return errno;
    // The plain way would replace an empty folder.
    struct stat info;
    if (lstat(to.c_str(), &info) == 0) return EEXIST;
    if (errno != ENOENT) return errno;
    return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  });
}

absl::Status ExchangeFolders(const std::string& a, const std::string& b) {
  return RenameAndFlush(a, b, [&] {
    if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return 0;
    return IsUnknown(errno) ? ENOSYS : errno;
  });
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  // Opening a pipe would wait for its writer, so look before.
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return CannotRead(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument("{}: is not a regular file; directories, pipes and devices are not read here.",
                           path);
  }
  // A pipe may have come since.
  Descriptor file(OpenForReading(path, O_NONBLOCK));
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return CannotRead(path, errno);
  if (!S_ISREG(info.st_mode)) return CannotRead(path, EINVAL);
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
