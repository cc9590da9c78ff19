#include "meshwork/storage/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "meshwork/base/crc32c.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kHeader = 12, kFooter = 4;  // bytes around the data
constexpr int64_t kReadAtOnce = int64_t{1} << 20;

void AppendNumber(std::string& out, uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(number >> (8 * i));
}

uint64_t FromLittleEndian(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return number;
}

absl::Status CannotWrite(const std::string& path, int error, std::string_view advice) {
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      fmt::format("{}: cannot be written: {}; {}.", path, std::generic_category().message(error), advice));
}

}  // namespace

void AppendRecord(std::string& file, std::string_view record) {
  const size_t begin = file.size();
  AppendNumber(file, record.size(), 8);
  AppendNumber(file, MaskedCrc32cOf(std::string_view(file).substr(begin)), 4);
  file += record;
  AppendNumber(file, MaskedCrc32cOf(record), 4);
}

absl::StatusOr<RecordWriter> RecordWriter::Create(const std::string& path) {
  int fd;
  do fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return CannotWrite(path, errno, "give the path of a new file in a folder that is writable");
  return RecordWriter(path, fd);
}

RecordWriter::RecordWriter(RecordWriter&& other) noexcept { *this = std::move(other); }

RecordWriter& RecordWriter::operator=(RecordWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(written_, other.written_);
  std::swap(pending_, other.pending_);
  return *this;
}

RecordWriter::~RecordWriter() {
  if (fd_ >= 0) close(fd_);
}

absl::Status RecordWriter::Write() {
  struct stat info;
  if (fd_ < 0 || fstat(fd_, &info) != 0) return CannotWrite(path_, EBADF, "it was closed");
  if (info.st_nlink == 0) {
    pending_.clear();
    return absl::NotFoundError(fmt::format(
        "{}: was removed while it was written; records since are lost, begin a new file.", path_));
  }
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const auto at = static_cast<off_t>(written_ + static_cast<int64_t>(pending_.size() - rest.size()));
    const ssize_t n = pwrite(fd_, rest.data(), rest.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return CannotWrite(path_, n < 0 ? errno : EIO,
                         "records are kept in memory and written when that is possible");
    rest.remove_prefix(static_cast<size_t>(n));
  }
  written_ += static_cast<int64_t>(pending_.size());
  pending_.clear();
  return absl::OkStatus();
}

absl::Status RecordWriter::Close() {
  if (fd_ < 0) return absl::OkStatus();
  absl::Status status = Write();
  // Network file systems report a full disk only here. After EINTR the file is closed.
  if (close(std::exchange(fd_, -1)) != 0 && errno != EINTR && status.ok())
    status = CannotWrite(path_, errno, "its last records may be missing");
  return status;
}

absl::StatusOr<RecordReader> RecordReader::Open(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  return RecordReader(std::move(file));
}

absl::Status RecordReader::CutShort() const {
  return absl::OutOfRangeError(fmt::format(
      "{}: ends within record {}, which begins at byte {}; its writer was stopped, or is still at work.",
      path(), record_, begin_));
}

absl::Status RecordReader::WrongChecksum(std::string_view what) const {
  return absl::DataLossError(fmt::format(
      "{}: the checksum of the {} of record {}, which begins at byte {}, is wrong; the file is damaged, or "
      "no file of records.",
      path(), what, record_, begin_));
}

absl::StatusOr<std::string_view> RecordReader::Take(int64_t size) {
  const int64_t held = buffered_ + static_cast<int64_t>(buffer_.size()) - at_;
  if (at_ < buffered_ || held < size) {
    buffer_.clear();
    buffered_ = at_;
    const int64_t wanted = std::min(std::max(size, kReadAtOnce), file_.size() - at_);
    std::string bytes(static_cast<size_t>(wanted), '\0');
    MESHWORK_RETURN_IF_ERROR(file_.ReadAt(at_, std::as_writable_bytes(std::span(bytes))));
    buffer_ = std::move(bytes);
  }
  const auto view =
      std::string_view(buffer_).substr(static_cast<size_t>(at_ - buffered_), static_cast<size_t>(size));
  at_ += size;
  return view;
}

absl::StatusOr<std::optional<std::string_view>> RecordReader::Next() {
  at_ = begin_;
  if (begin_ == file_.size()) return std::nullopt;
  if (file_.size() - at_ < kHeader) return CutShort();
  MESHWORK_ASSIGN_OR_RETURN(const std::string_view header, Take(kHeader));
  const uint64_t length = FromLittleEndian(header.substr(0, 8));
  if (FromLittleEndian(header.substr(8)) != MaskedCrc32cOf(header.substr(0, 8)))
    return WrongChecksum("length");
  const auto left = static_cast<uint64_t>(file_.size() - at_);
  if (left < kFooter || length > left - kFooter) return CutShort();
  MESHWORK_ASSIGN_OR_RETURN(const std::string_view body, Take(static_cast<int64_t>(length) + kFooter));
  const std::string_view data = body.substr(0, length);
  if (FromLittleEndian(body.substr(length)) != MaskedCrc32cOf(data)) return WrongChecksum("data");
  begin_ = at_;
  ++record_;
  return data;
}

}  // namespace meshwork
