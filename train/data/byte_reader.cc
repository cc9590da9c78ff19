#include "meshwork/train/data/byte_reader.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"

namespace meshwork::internal {
namespace {

constexpr int64_t kReadAtOnce = int64_t{1} << 18;

// The bytes of a file, in portions.
Unpacker::More PortionsOf(std::shared_ptr<const InputFile> file) {
  return [file = std::move(file), portion = std::string(),
          at = int64_t{0}]() mutable -> absl::StatusOr<std::string_view> {
    portion.resize(static_cast<size_t>(std::min(kReadAtOnce, file->size() - at)));
    if (portion.empty()) return std::string_view();
    MESHWORK_RETURN_IF_ERROR(file->ReadAt(at, std::as_writable_bytes(std::span(portion))));
    at += static_cast<int64_t>(portion.size());
    return portion;
  };
}

}  // namespace

ByteReader::ByteReader(std::string path, Unpacker unpacker)
    : path_(std::move(path)), unpacker_(std::move(unpacker)), buffer_(static_cast<size_t>(kReadAtOnce)) {}

absl::StatusOr<ByteReader> ByteReader::Open(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  return ByteReader(path, Unpacker(path, PortionsOf(std::make_shared<const InputFile>(std::move(file)))));
}

absl::StatusOr<std::string_view> ByteReader::Buffered() {
  if (next_ == end_) {
    MESHWORK_ASSIGN_OR_RETURN(end_, unpacker_.Read(buffer_));
    next_ = 0;
  }
  return std::string_view(reinterpret_cast<const char*>(buffer_.data()) + next_, end_ - next_);
}

absl::StatusOr<int> ByteReader::Peek() {
  if (next_ < end_) return buffer_[next_];
  MESHWORK_ASSIGN_OR_RETURN(const std::string_view bytes, Buffered());
  return bytes.empty() ? -1 : static_cast<uint8_t>(bytes[0]);
}

absl::StatusOr<int> ByteReader::Get() {
  MESHWORK_ASSIGN_OR_RETURN(const int byte, Peek());
  if (byte >= 0) Take(1);
  return byte;
}

absl::StatusOr<int64_t> ByteReader::Append(int64_t n, std::string& to) {
  int64_t appended = 0;
  while (appended < n) {
    MESHWORK_ASSIGN_OR_RETURN(std::string_view bytes, Buffered());
    if (bytes.empty()) break;
    bytes = bytes.substr(0, static_cast<size_t>(std::min(n - appended, std::ssize(bytes))));
    to += bytes;
    Take(bytes.size());
    appended += std::ssize(bytes);
  }
  return appended;
}

absl::StatusOr<int64_t> ByteReader::AppendUntil(std::string_view stops, int64_t n, std::string& to) {
  int64_t appended = 0;
  while (appended < n) {
    MESHWORK_ASSIGN_OR_RETURN(std::string_view bytes, Buffered());
    bytes = bytes.substr(0, static_cast<size_t>(std::min(n - appended, std::ssize(bytes))));
    const size_t stop = bytes.find_first_of(stops);
    const std::string_view before = bytes.substr(0, stop);
    to += before;
    Take(before.size());
    appended += std::ssize(before);
    if (bytes.empty() || stop != std::string_view::npos) break;
  }
  return appended;
}

absl::StatusOr<bool> ByteReader::ReadLine(std::string& line, int64_t longest, int64_t number) {
  line.clear();
  for (bool any = false;; any = true) {
    MESHWORK_ASSIGN_OR_RETURN(const std::string_view bytes, Buffered());
    if (bytes.empty() && !any) return false;
    const size_t end = bytes.find('\n');
    line += bytes.substr(0, end);
    if (std::ssize(line) > longest)
      return InvalidArgument("{}:{}: the line has more than {}; is the file text? If so, allow longer lines.",
                             path_, number, Count(longest, "byte"));
    const bool is_whole = bytes.empty() || end != std::string_view::npos;
    Take(end != std::string_view::npos ? end + 1 : bytes.size());
    if (!is_whole) continue;
    if (line.ends_with('\r')) line.pop_back();
    return true;
  }
}

absl::Status ByteReader::SkipTo(int64_t offset) {
  while (offset_ < offset) {
    MESHWORK_ASSIGN_OR_RETURN(const std::string_view bytes, Buffered());
    if (bytes.empty())
      return InvalidArgument("{}: has {} and the position is behind byte {}; it has changed.", path_,
                             Count(offset_, "byte"), offset);
    Take(static_cast<size_t>(std::min(offset - offset_, std::ssize(bytes))));
  }
  return absl::OkStatus();
}

}  // namespace meshwork::internal
